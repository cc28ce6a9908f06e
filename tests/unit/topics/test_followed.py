"""Topics that another worker decides about."""

from uuid import UUID

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.ports import TopicInfo
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.replicated_catalog import FollowedCatalog

ORDERS = TopicInfo("orders", UUID(int=1), 3)
PAYMENTS = TopicInfo("payments", UUID(int=2), 1)


def test_a_creation_is_wished_for_and_nothing_is_known_of_it_yet() -> None:
    wishes: list[list[tuple[str, int]]] = []
    catalog = FollowedCatalog([ORDERS], lambda topics: wishes.append(list(topics)))
    assert catalog.create([("payments", 1)]) == ()
    assert wishes == [[("payments", 1)]]
    assert catalog.get("payments") is None
    with pytest.raises(TopicError) as refused:
        catalog.create([("orders", 1)])
    assert refused.value.error == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_deletion_is_not_its_business() -> None:
    with pytest.raises(TopicError) as refused:
        FollowedCatalog([ORDERS], lambda _: None).delete(["orders"])
    assert refused.value.error == ErrorCode.NOT_CONTROLLER


def test_what_is_published_is_taken_over_whole_and_changes_are_told() -> None:
    catalog = FollowedCatalog([ORDERS, PAYMENTS], lambda _: None)
    changed: list[str] = []
    catalog.on_change(changed.append)
    grown = PAYMENTS._replace(partitions=4)
    assert catalog.follow([grown]) == [ORDERS]
    assert changed == ["orders", "payments"]
    assert catalog.get("orders") is None
    assert catalog.by_id(PAYMENTS.topic_id) == grown
    assert catalog.follow([grown]) == []
    assert changed == ["orders", "payments"]


def test_a_topic_made_anew_is_another_one() -> None:
    catalog = FollowedCatalog([ORDERS], lambda _: None)
    anew = ORDERS._replace(topic_id=UUID(int=9))
    assert catalog.follow([anew]) == [ORDERS]
    assert catalog.by_id(ORDERS.topic_id) is None
    assert catalog.get("orders") == anew
