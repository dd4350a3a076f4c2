"""What `make test` is made of: steps that run side by side, and one that fails fails the whole."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

STEPS = ROOT / "tools/steps.py"
MAKEFILE = """
good:
	@echo all is well
odd:
	@printf 'odd \\377 word\\n'
bad:
	@echo something broke; false
killed:
	@kill -9 $$$$PPID
meets-%:
	@touch $@; for i in `seq 600`; do test `ls meets-* | wc -l` = 2 && exit; sleep 0.05; done; false
wordy:
	@seq 100
tests:
	@echo '________ test_a ________'; echo 'ERROR    netfw.db:db.py:7 no route'; seq 100; \\
	echo 'FAILED tests/test_a.py::test_a[x y] - assert 1 == 2'; \\
	echo 'ERROR tests/test_b.py - ImportError'; echo '1 failed, 9 passed'; false
many-tests:
	@seq --format 'FAILED tests/test_a.py::test_%g' 120; false
niceness:
	@echo niceness `nice`
keeps-%:
	@test ! -e lock && touch lock && sleep 0.2 && rm lock
"""


@pytest.fixture
def steps(tmp_path: Path):
    (tmp_path / "Makefile").write_text(MAKEFILE.replace("$$$$", "$$"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(STEPS), *words]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("broken", ["bad", "killed", "bad:last", "no-such-step"])
def test_one_step_that_fails_fails_the_whole_and_the_others_run(steps, broken: str) -> None:
    done = steps(broken, "good")
    assert done.returncode == 1
    assert "all is well" in done.stdout
    summary = done.stdout.partition("Summary")[2]
    assert f"FAILED {broken.partition(':')[0]} " in summary
    assert "ok     good " in summary


def test_what_a_step_says_is_shown(steps) -> None:
    assert "something broke" in steps("bad").stdout
    assert "all is well" in steps("good:last").stdout
    assert steps("good", "good:last").returncode == 0


def test_step_that_passes_prints_its_last_lines_only(steps) -> None:
    assert re.findall(r"^\d+$", steps("wordy").stdout, re.M) == ["98", "99", "100"]


def test_output_of_a_failed_step_is_complete_and_its_failed_tests_are_in_the_summary(steps) -> None:
    before, _, summary = steps("tests", "good").stdout.partition("Summary")
    assert all(f"\n{number}\n" in before for number in range(1, 101))
    assert "ERROR    netfw.db:db.py:7 no route" in before
    (failed, *named) = summary.strip().splitlines()[:3]
    assert failed.startswith("FAILED tests ")
    assert [line.strip() for line in named] == [
        "FAILED tests/test_a.py::test_a[x y] - assert 1 == 2",
        "ERROR tests/test_b.py - ImportError",
    ]


def test_summary_of_many_failed_tests_is_bounded(steps) -> None:
    summary = steps("many-tests").stdout.partition("Summary")[2]
    assert summary.count("FAILED tests/test_a.py") == 50
    assert "... and 70 more" in summary


def test_failed_step_without_tests_shows_its_end_in_the_summary(steps) -> None:
    assert "something broke" in steps("bad").stdout.partition("Summary")[2]


def test_whatever_bytes_a_step_says_are_passed_on(tmp_path: Path, steps) -> None:
    assert steps("good").returncode == 0
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", str(STEPS), "odd", "good"],
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"odd \xff word" in done.stdout


@pytest.mark.parametrize("when", ["", ":last"])
def test_steps_run_side_by_side(steps, when: str) -> None:
    assert steps(f"meets-a{when}", f"meets-b{when}").returncode == 0


def test_step_that_needs_the_machine_runs_alone(steps) -> None:
    assert steps("keeps-a:99", "keeps-b:99", "keeps-c:99").returncode == 0


@pytest.mark.parametrize("other", ["good", "good:last"])
def test_steps_that_only_compute_have_a_low_priority_beside_others(steps, other: str) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert f"niceness {own + 10}\n" in steps(other, "niceness:low").stdout
    assert f"niceness {own}\n" in steps("niceness:last").stdout
    assert f"niceness {own}\n" in steps("niceness:low", "meets-a:low", "meets-b:low").stdout


@pytest.mark.parametrize("other", ["meets-a:99", "meets-a:last"])
def test_steps_that_only_compute_run_beside_all_others(steps, other: str) -> None:
    assert steps(other, "meets-b:low").returncode == 0


def test_the_last_steps_start_when_all_others_have_ended(steps) -> None:
    assert steps("keeps-a:last", "keeps-b", "good:last").returncode == 0
    (first, *_, last) = re.findall(r"== (\S+) begins", steps("good:last", "bad").stdout)
    assert (first, last) == ("bad", "good")
