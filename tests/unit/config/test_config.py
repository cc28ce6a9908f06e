"""Settings: sources, checks, and how what is wrong is reported."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from coordinator_server.config import (
    Address,
    Config,
    ConfigError,
    DeclaredTopic,
    Listener,
    advertised_warnings,
    load,
)
from coordinator_server.config.kafka_names import KAFKA_NAMES
from coordinator_server.config.listeners import parse_address, parse_listeners
from coordinator_server.config.model import PROPERTIES, from_texts, texts
from coordinator_server.config.own import OWN
from coordinator_server.config.sources import environment_name
from tools.generate_docs import stale_pages


def loaded(*settings: str, environ: Mapping[str, str] | None = None) -> Config:
    return load(settings=settings, environ=environ or {}).config


def problems(*settings: str, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(settings=settings, environ=environ or {})
    return [str(problem) for problem in caught.value.problems]


def test_defaults_are_kafkas_but_local() -> None:
    config = loaded()
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.http_listener == Address("127.0.0.1", 9404)
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.group_min_session_timeout_ms == 6000
    assert config.offsets_topic_num_partitions == 50
    assert config == Config()


def test_later_sources_win_over_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\ngroup.max.size=2\nmax.connections=2\nnode.id=2\n")
    config = load(
        presets={"num.partitions": "1", "log.level": "debug"},
        file=file,
        environ={
            "KAFKA_GROUP_MAX_SIZE": "3",
            "KAFKA_MAX_CONNECTIONS": "3",
            "KAFKA_NODE_ID": "3",
        },
        settings=["max.connections=4", "node.id=4"],
        flags={"node.id": "5"},
    ).config
    assert (config.num_partitions, config.group_max_size) == (2, 3)
    assert (config.max_connections, config.node_id) == (4, 5)
    assert config.log_level == "debug"


def test_everything_wrong_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\ngroup.max.size = 0\n")
    with pytest.raises(ConfigError) as caught:
        load(
            file=file,
            environ={"KAFKA_LOG_FLUSH": "never"},
            settings=["num.partitions=many", "nothing", "max.connections=99999999999"],
        )
    assert sorted(map(str, caught.value.problems)) == [
        "--set nothing: expected name=value",
        f"group.max.size=0 ({file}:2): expected an integer of at least 1",
        "log.flush=never (KAFKA_LOG_FLUSH): expected one of commit, interval, os",
        "max.connections=99999999999 (--set): expected at most 2147483647",
        "num.partitions=many (--set): expected an integer from 1 to 10000",
    ]


def test_settings_that_do_not_go_together_are_reported_beside_wrong_ones() -> None:
    assert problems("group.max.session.timeout.ms=5000", "node.id=-1") == [
        "node.id=-1 (--set): expected an integer of at least 0",
        (
            "group.min.session.timeout.ms (default): expected at most "
            "group.max.session.timeout.ms=5000"
        ),
    ]


@pytest.mark.parametrize(
    "setting",
    [
        "group.max.size=1_000",
        "group.max.size=1.0",
        "group.max.size=",
        "log.cleaner.min.cleanable.ratio=1.5",
        "log.cleaner.min.cleanable.ratio=half",
        "log.cleaner.min.cleanable.ratio=nan",
        "metrics.aliases=jmx,statsd",
        "metrics.groups.allow=(",
        "auto.create.topics.enable=yes",
        "auto.create.topics.enable=1",
        "log.dirs=/a,/b",
        "log.dirs=",
        "topics=orders",
        "topics=orders:0",
        "topics=or ders:1",
        "topics=a:1,a:2",
        "http.listener=9404",
        "listeners=",
        "listeners=PLAINTEXT://h",
        "listeners=PLAINTEXT://h:70000",
        "listeners=PLAINTEXT://h:1,plaintext://h:2",
        "listeners=SSL://h:1",
        "listeners=OUTSIDE://h:1",
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=PLAINTEXT://:9092",
        "listener.security.protocol.map=PLAINTEXT:NONE",
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_property(setting: str) -> None:
    found = problems(setting)
    assert any(problem.startswith(f"{setting} (--set): ") for problem in found)


@pytest.mark.parametrize(
    ("settings", "attribute", "value"),
    [
        (["group.max.size=+5"], "group_max_size", 5),
        (["auto.create.topics.enable=FALSE"], "auto_create_topics_enable", False),
        (["log.flush=OS"], "log_flush", "os"),
        (["log.dir=/var/x"], "log_dirs", Path("/var/x")),
        (["log.dir=/var/x", "log.dirs=/var/y"], "log_dirs", Path("/var/y")),
        (["log.roll.hours=2"], "log_roll_ms", 7_200_000),
        (["log.roll.hours=2", "log.roll.ms=5"], "log_roll_ms", 5),
        (["broker.id=7"], "node_id", 7),
        (["broker.id=-1"], "node_id", 1),
        (["http.listener="], "http_listener", None),
        (["http.listener=[::1]:0"], "http_listener", Address("::1", 0)),
        (
            ["topics=orders:4, payments:2"],
            "topics",
            (DeclaredTopic("orders", 4), DeclaredTopic("payments", 2)),
        ),
    ],
)
def test_a_value_is_read_as_kafka_reads_it(
    settings: Sequence[str], attribute: str, value: object
) -> None:
    assert getattr(loaded(*settings), attribute) == value


@pytest.mark.parametrize("hours", ["0", "-1", "1.5", "many", ""])
def test_log_roll_hours_has_to_be_a_whole_number(hours: str) -> None:
    assert problems(f"log.roll.hours={hours}") == [
        f"log.roll.hours={hours} (--set): expected an integer of at least 1"
    ]


def test_node_id_and_broker_id_have_to_agree() -> None:
    assert loaded("broker.id=3", "node.id=3").node_id == 3
    assert problems("broker.id=4", "node.id=3") == [
        "broker.id=4 (--set): expected the same as node.id=3 (--set)"
    ]


def test_environment_names_follow_kafkas_image() -> None:
    assert environment_name("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP") == (
        "listener.security.protocol.map"
    )
    assert environment_name("KAFKA_A__B___C") == "a_b-c"


def test_advertised_listeners_alone_stand_for_their_ports_on_all_interfaces() -> None:
    config = loaded(environ={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.test:9093"})
    assert config.listeners == (Listener("PLAINTEXT", "0.0.0.0", 9093),)
    assert config.advertised() == (Listener("PLAINTEXT", "kafka.test", 9093),)


def test_listeners_are_told_as_they_are_where_nothing_else_is_advertised() -> None:
    config = loaded(
        "listeners=PLAINTEXT://127.0.0.1:0,OUT://0.0.0.0:9094",
        "advertised.listeners=OUT://kafka.test:19094",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
    )
    assert config.advertised() == (
        Listener("PLAINTEXT", "127.0.0.1", 0),
        Listener("OUT", "kafka.test", 19094),
    )


def test_a_listener_without_a_host_is_told_by_the_machines_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    assert loaded("listeners=PLAINTEXT://:9092").advertised()[0].host == "here"


def test_listeners_of_controllers_are_not_opened() -> None:
    config = loaded(
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names=CONTROLLER",
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]


def test_two_listeners_share_a_port_only_as_ipv4_and_ipv6() -> None:
    names = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    assert len(loaded("listeners=A://127.0.0.1:9092,B://[::1]:9092", names).listeners) == 2
    assert len(problems("listeners=A://127.0.0.1:9092,B://127.0.0.2:9092", names)) == 1


def test_listeners_and_addresses_are_written_as_they_are_read() -> None:
    for text in ("PLAINTEXT://127.0.0.1:9092", "A://:0", "A://[::1]:9092"):
        assert str(parse_listeners(text)[0]) == text
    for text in ("127.0.0.1:1", "[::1]:1"):
        assert str(parse_address(text)) == text


def test_an_advertised_host_that_does_not_resolve_is_warned_about() -> None:
    def resolve(host: str) -> Sequence[str]:
        raise OSError("no such name")

    told = (Listener("PLAINTEXT", "nowhere.test", 9092),)
    (warning,) = advertised_warnings(told, told, resolve)
    assert "'nowhere.test'" in warning
    assert "does not resolve" in warning


def test_an_advertised_host_beyond_a_loopback_listener_is_warned_about() -> None:
    local = (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    told = (Listener("PLAINTEXT", "kafka.test", 9092),)
    (warning,) = advertised_warnings(local, told, lambda _: ["192.0.2.1"])
    assert "listeners=PLAINTEXT://0.0.0.0:9092" in warning
    assert list(advertised_warnings(local, told, lambda _: ["127.0.0.1"])) == []
    assert list(advertised_warnings(local, local, lambda host: [host])) == []


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("num.partitions=3", "num_partitions", 3),
        ("  num.partitions : 3  ", "num_partitions", 3),
        ("num.partitions 3", "num_partitions", 3),
        ("num.part\\\n   itions=\\\n  3", "num_partitions", 3),
        ("num\\.partitions=\\u0033", "num_partitions", 3),
        ("! no\n# num.partitions=9\n\nnum.partitions=2\r\nnum.partitions=3", "num_partitions", 3),
        ("admin.token=a\\=b\\tc\\\\", "admin_token", "a=b\tc\\"),
        ("cluster.id=a=b:c # d", "cluster_id", "a=b:c # d"),
        ("cluster.id=last\\", "cluster_id", "last"),
    ],
)
def test_a_file_has_the_syntax_of_java_properties(
    tmp_path: Path, text: str, name: str, value: object
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    assert getattr(load(file=file, environ={}).config, name) == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"num.partitions=\\u00zz", "line 1: \\u00 is not an escape"),
        (b"a=b\nc=\xff", "byte 6 is not UTF-8"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=str(file)) as caught:
        load(file=file, environ={})
    (problem,) = caught.value.problems
    assert problem.message.startswith(message)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="node_id"):
        Config().node_id = 2  # type: ignore[misc]


def test_settings_are_shown_as_they_are_read() -> None:
    for known in PROPERTIES.values():
        if known.default is not None:
            assert known.kind.parse(known.kind.show(known.default)) == known.default
    config = loaded(
        *("node.id=7", "cluster.id=c", "listeners=A://[::1]:0,B://h:1", "http.listener="),
        *("listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "topics=a:1,b:2"),
        *("log.dirs=/d", "log.cleaner.enable=false", "log.cleaner.min.cleanable.ratio=0.25"),
        *("metrics.aliases=jmx", "metrics.groups.allow=a.*", "log.flush=os"),
    )
    assert from_texts(texts(config)) == config


def test_listeners_that_are_the_default_are_not_derived_anew_from_what_is_advertised() -> None:
    config = loaded(
        "listeners=PLAINTEXT://127.0.0.1:9092", "advertised.listeners=PLAINTEXT://host:9092"
    )
    assert from_texts(texts(config)) == config


def test_every_property_is_kafkas_or_one_of_our_own() -> None:
    names = set(PROPERTIES)
    assert names - KAFKA_NAMES == OWN
    assert not OWN & KAFKA_NAMES


def test_generated_pages_are_what_the_code_prints() -> None:
    assert stale_pages() == []


# --- metrics ---


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"metrics.groups.allow": "a("},
            "unterminated subpattern at position 1, expected a regular expression",
        ),
        ({"metrics.aliases": "jmx,burrow"}, "'burrow' is none of jmx, kafka_exporter"),
        ({"metrics.aliases": "kafka_exporter"}, "set metrics.groups.allow, `.*` for all"),
    ],
)
def test_what_metrics_cannot_be_is_said(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={}, flags=settings)
    ((name, value),) = settings.items()
    (said,) = map(str, caught.value.problems)
    assert said.startswith(name)
    assert value in said
    assert problem in said


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("topics=t:2147483647", "is not name:partitions with 1 to 10000 partitions"),
        ("num.partitions=10001", "expected at most 10000"),
        ("offsets.topic.num.partitions=2147483647", "expected at most 10000"),
        ("cluster.id=" + "x" * 256, "expected a text of at most 255 printable characters"),
        ("cluster.id=a\nb", "expected a text of at most 255 printable characters"),
        ("cluster.id=a\x1b[31m", "expected a text of at most 255 printable characters"),
        ("cluster.id=a\u202eb", "expected a text of at most 255 printable characters"),
    ],
)
def test_what_could_not_be_served_is_refused(setting: str, expected: str) -> None:
    (problem,) = problems(setting)
    assert expected in problem


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_cluster_id_is_none(value: str) -> None:
    assert loaded(f"cluster.id={value}").cluster_id is None


def test_workers_count_node_ids_up_to_the_last_there_is() -> None:
    assert loaded("node.id=2147483646", "workers=2").workers == 2
    (problem,) = problems("node.id=2147483647", "workers=2")
    assert "expected at most 2147483646: each worker adds 1" in problem
