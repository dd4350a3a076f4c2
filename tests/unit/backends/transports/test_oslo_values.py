"""Fields and options of the transport over a broker."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Message, Transport
from netfw.errors import BackendBroken, ConfigError, NotFound
from netfw_drivers.transports.oslo.message_codec import (
    from_error,
    from_message,
    to_answer,
    to_message,
)


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        Message,
        topic=st.text(max_size=9),
        method=st.text(max_size=9),
        body=st.one_of(st.binary(max_size=50), st.text(max_size=50).map(str.encode)),
        request_id=st.text(max_size=9),
    )
)
def test_messages_survive_json(message):
    assert to_message(json.loads(json.dumps(from_message(message)))) == message


@pytest.mark.parametrize(
    "fields",
    [None, [], {}, {"topic": "a"}, {**from_message(Message(topic="a", method="b")), "text": 1},
     {"topic": "a", "method": "b", "version": "", "request_id": "", "base64": "?"},
     {"topic": "a", "method": "b", "version": "", "request_id": "", "text": "\ud800"}],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_an_error(fields):
    assert isinstance(to_answer(fields), BackendBroken)


def test_errors_are_answers():
    arrived = to_answer(json.loads(json.dumps(from_error(NotFound("no port ä")))))
    assert isinstance(arrived, NotFound)
    assert str(arrived) == "no port ä"


@pytest.mark.parametrize("url", ["amqp://a", "kafka://a", "fake:", ""])
def test_only_rabbitmq_is_known(url):
    with pytest.raises(ConfigError):
        create(Transport, "oslo", {"transport_url": url}, LocalHostResources())


def test_a_broker_must_be_named():
    with pytest.raises(ConfigError, match="transport_url"):
        create(Transport, "oslo", {}, LocalHostResources())


@pytest.mark.slow
def test_neither_the_driver_nor_its_use_loads_eventlet():
    check = (
        "import sys, warnings; warnings.simplefilter('ignore');"
        "import netfw_drivers.transports.oslo.transport;"
        "assert 'oslo_messaging' not in sys.modules;"
        "import netfw_drivers.transports.oslo.session;"
        "assert 'oslo_messaging' in sys.modules;"
        "print([name for name in sys.modules if name.split('.')[0] == 'eventlet'])"
    )
    ran = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]"
