"""Checks of a conformance suite: what its tests refuse, and which promises that proves."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

import pytest

from netfw.testing.conformance.common.promises import Promise, promises_of, proofs_in, unproven
from tests.conformance.common.mutations import Mutation, Mutations
from tests.conformance.common.suite_runner import Refusal

CONTRADICTIONS = Promise("Driver.from_conf", "ConfigError")
"""Which options contradict each other, no suite knows."""


class MutationChecks:
    """A correct fake passes the suite, and the suite refuses every mutation of it.

    A subclass names the suite, the contracts, the fake and its mutations, and overrides
    `run_suite`.
    """

    SUITE: ClassVar[type]
    CONTRACTS: ClassVar[tuple[type, ...]]
    """The contracts whose promises the suite proves."""
    BROKEN_CONTRACTS: ClassVar[tuple[type, ...]]
    """Those of them whose promises the mutations break."""
    FAKE: ClassVar[type]
    MUTATIONS: ClassVar[Mutations]
    WATCHED: ClassVar[Mutations] = Mutations()
    """Those of them that do their work, and misuse the process or the machine."""
    LEAST: ClassVar[int]
    """The number of mutations, which must not shrink."""
    UNPROVEN: ClassVar[frozenset[Promise]] = frozenset()
    """Promises that the suite cannot prove on every backend."""
    LEFT_OUT: ClassVar[frozenset[str]] = frozenset()
    """Tests that depend on timing or on random input; other checks cover them."""
    WATCHED_ALWAYS: ClassVar[bool] = False
    """Whether `make test` tries all of ``WATCHED`` with this suite."""
    INHERITED: ClassVar[bool] = True
    """Whether the tests that all host drivers share have to refuse a mutation here too."""
    seen_refusing: ClassVar[set[str]]
    """Tests of the suite that refused a mutation in this process: none runs for it again."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.seen_refusing = set()

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        """Run *tests* of the suite on drivers of the class *driver*."""
        raise NotImplementedError("override `run_suite`")

    def suite_tests(self) -> frozenset[str]:
        return frozenset(name for name, _ in proofs_in(self.SUITE)) - self.LEFT_OUT

    def outcomes(self, mutation: Mutation) -> Iterator[tuple[str, bool]]:
        """Run the suite on *mutation* test by test; yield each test and whether it refuses.

        Proofs of the promises that *mutation* breaks come first, so that a caller that has seen
        enough can stop early.
        """
        broken, proofs = mutation.apply(self.FAKE), dict(proofs_in(self.SUITE))
        for test in sorted(self.suite_tests(), key=lambda t: (not proofs[t] & mutation.breaks, t)):
            refusal = self.run_suite(broken, {test})
            self.seen_refusing |= refusal.refusing
            if refusal.refusing or refusal.passed:
                yield test, bool(refusal.refusing)

    def _is_common(self, test: str) -> bool:
        return ".conformance.common." in getattr(self.SUITE, test).__module__

    def check_promise_is_named(self, misuse: Mutation) -> None:
        """Check that a refusal of *misuse* names the promise that it breaks."""
        broken = {f"promise {promise.what} of {promise.where}" for promise in misuse.breaks}
        said: list[str] = []
        for test, proven in proofs_in(self.SUITE):
            if proven & misuse.breaks:
                refusal = self.run_suite(misuse.apply(self.FAKE), {test})
                self.seen_refusing |= refusal.refusing
                said += refusal.reasons.values()
                if any(promise in reason for promise in broken for reason in said):
                    return
        pytest.fail(f"no test says {broken}; they say {said}")

    def mutation_parameters(self) -> list[Any]:
        """Return a parameter for each mutation.

        One that breaks only promises which mutations before it break too is for the nightly run.
        """
        parameters, broken, watched = [], set[Promise](), set[frozenset[Promise]]()
        for mutation in self.MUTATIONS:
            if mutation in self.WATCHED:  # a refusal names one of the promises that it breaks
                is_new = self.WATCHED_ALWAYS or mutation.breaks not in watched
                watched.add(mutation.breaks)
            else:
                is_new = not mutation.breaks <= broken
                broken |= mutation.breaks
            marks = () if is_new else (pytest.mark.nightly,)
            parameters.append(pytest.param(mutation, id=mutation.name, marks=marks))
        return parameters

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mutation" in metafunc.fixturenames:
            metafunc.parametrize("mutation", self.mutation_parameters())

    def test_correct_fake_passes_the_whole_suite(self) -> None:
        refusal = self.run_suite(self.FAKE, self.suite_tests())
        assert not refusal.refusing, f"refused by {sorted(refusal.refusing)}"
        assert refusal.passed

    def test_mutation_is_refused_by_a_proof_of_the_promise_it_breaks(
        self, mutation: Mutation
    ) -> None:
        if mutation in self.WATCHED:
            return self.check_promise_is_named(mutation)
        proofs, refusing, proven, any_passed = dict(proofs_in(self.SUITE)), set(), set(), False
        for test, refused in self.outcomes(mutation):
            any_passed |= not refused
            if refused:
                refusing.add(test)
                proven |= proofs[test]
            if refusing and any_passed and mutation.breaks <= proven:
                return None
        assert refusing, "no test of the suite refuses it"
        assert any_passed, "every test refuses it, so that it breaks no promise alone"
        assert mutation.breaks <= proven, f"refused by {sorted(refusing)}"
        return None

    @pytest.mark.nightly
    def test_every_test_of_the_suite_refuses_a_mutation(self) -> None:
        silent = self.suite_tests() - self.seen_refusing
        if not self.INHERITED:
            silent = frozenset(name for name in silent if not self._is_common(name))
        silent -= self.run_suite(self.FAKE, silent).skipped
        proofs = dict(proofs_in(self.SUITE))
        for mutation in self.MUTATIONS:  # most refuse a mutation that breaks what they prove
            likely = {test for test in silent if proofs[test] & mutation.breaks}
            silent -= self.run_suite(mutation.apply(self.FAKE), likely).refusing
        for mutation in self.MUTATIONS:
            silent -= self.run_suite(mutation.apply(self.FAKE), silent).refusing
        assert not silent, f"these refuse no mutation: {sorted(silent)}"

    def test_every_promise_and_documented_error_has_a_proof(self) -> None:
        missing = unproven(self.SUITE, *self.CONTRACTS)
        assert missing == self.UNPROVEN, f"no test proves {sorted(map(str, missing))}"

    def test_every_promise_and_documented_error_is_broken_by_a_mutation(self) -> None:
        promised = {
            promise for contract in self.BROKEN_CONTRACTS for promise in promises_of(contract)
        }
        broken = {promise for mutation in self.MUTATIONS for promise in mutation.breaks}
        missing = sorted(map(str, promised - self.UNPROVEN - broken))
        assert not missing, f"no mutation breaks {missing}"
        assert broken <= promised

    def test_number_of_mutations_does_not_shrink(self) -> None:
        assert len(self.MUTATIONS) >= self.LEAST
