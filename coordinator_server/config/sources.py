"""Reads settings from presets, a file, the environment, `--set` and flags; later ones win.

One call reports all problems, each with the property, its value, its origin and the expected value.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_server.config.consistency import contradictions
from coordinator_server.config.kafka_names import KAFKA_NAMES
from coordinator_server.config.listeners import parse_listeners
from coordinator_server.config.model import PROPERTIES, Config
from coordinator_server.config.own import OWN
from coordinator_server.config.properties import parse_properties

DEV_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "true"}
"""Settings of `--dev`; all other sources override them."""

SYNONYMS = {"broker.id": "node.id", "log.dir": "log.dirs"}

LARGER_UNITS = {"log.roll.hours": ("log.roll.ms", 3_600_000)}
"""Properties that exist in a smaller unit too; the smaller unit wins."""

NOT_PROPERTIES = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables of Kafka's image that are not properties (kafka.docker.KafkaDockerWrapper)."""

_WHOLE_NUMBER = re.compile(r"0*[1-9][0-9]{0,8}")

UNENFORCED = {
    "authorizer.class.name": "this server has no ACLs: every client may do everything",
}
"""Properties that protect a server; ignoring them needs a warning."""


class Setting(NamedTuple):
    """The text of a property and its origin."""

    name: str
    value: str
    origin: str


class ConfigProblem(NamedTuple):
    """One problem in the settings."""

    where: str
    message: str

    def __str__(self) -> str:
        """One line: the setting and the problem."""
        return f"{self.where}: {self.message}"


class ConfigError(Exception):
    """The settings are wrong; `problems` has all problems, `warnings` all warnings."""

    def __init__(
        self, problems: Sequence[ConfigProblem], warnings: Sequence[ConfigProblem] = ()
    ) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(map(str, warnings))
        super().__init__("\n".join(map(str, self.problems)))


class LoadedConfig(NamedTuple):
    """A valid configuration and its warnings."""

    config: Config
    warnings: tuple[str, ...]


def load(
    *,
    presets: Mapping[str, str] | None = None,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
    flags: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read all sources and check the settings.

    Args:
        presets: names and values that count as defaults (`--dev`).
        file: a file in the syntax of `server.properties`.
        environ: the environment, by default the process's own; only `KAFKA_...` is read.
        settings: the `name=value` of each `--set`.
        flags: names and values given by command line flags of their own.

    Raises:
        ConfigError: with all problems.
    """
    problems: list[ConfigProblem] = []
    gathered = [
        *_from_mapping(presets or {}, "preset"),
        *_from_file(file, problems),
        *_from_environ(os.environ if environ is None else environ),
        *_from_assignments(settings, problems),
        *_from_mapping(flags or {}, "command line"),
    ]
    config, warnings = _checked(gathered, problems)
    if problems:
        raise ConfigError(problems, warnings)
    return LoadedConfig(config, tuple(map(str, warnings)))


def load_exactly(settings: Mapping[str, object], origin: str) -> Config:
    """Load settings that a program passes; a warning counts as a problem.

    Raises ConfigError with all problems.
    """
    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    problems = [
        ConfigProblem(f"{name}={value!r} ({origin})", "expected a text")
        for name, value in settings.items()
        if name not in texts
    ]
    config, warnings = _checked(_from_mapping(texts, origin), problems)
    problems += warnings
    if problems:
        raise ConfigError(problems)
    return config


def _checked(
    gathered: Iterable[Setting], problems: list[ConfigProblem]
) -> tuple[Config, list[ConfigProblem]]:
    """The configuration and its warnings; problems are appended to `problems`."""
    known, warnings = _known(_last_of_each(gathered))
    _resolve_synonyms(known, problems)
    _derive_listeners(known)
    config, wrong = _validate(known)
    problems += wrong
    return config, warnings


def _from_mapping(values: Mapping[str, str], origin: str) -> Iterator[Setting]:
    for name, value in values.items():
        yield Setting(name, value, origin)


def _from_file(file: Path | None, problems: list[ConfigProblem]) -> Iterator[Setting]:
    if file is None:
        return
    try:
        for line, name, value in parse_properties(file.read_text(encoding="utf-8")):
            yield Setting(name, value.strip(), f"{file}:{line}")
    except OSError as error:
        problems.append(ConfigProblem(str(file), f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError as error:
        problems.append(
            ConfigProblem(str(file), f"byte {error.start} is not UTF-8, expected UTF-8 text")
        )
    except ValueError as error:
        problems.append(ConfigProblem(str(file), str(error)))


def _from_environ(environ: Mapping[str, str]) -> Iterator[Setting]:
    for variable, value in environ.items():
        if variable.startswith("KAFKA_") and variable not in NOT_PROPERTIES:
            yield Setting(environment_name(variable), value.strip(), variable)


def environment_name(variable: str) -> str:
    """The property an environment variable stands for: `_` is a dot, `__` a `_`, `___` a `-`."""
    dotted = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def _from_assignments(settings: Iterable[str], problems: list[ConfigProblem]) -> Iterator[Setting]:
    for text in settings:
        name, equals, value = text.partition("=")
        if equals and name.strip():
            yield Setting(name.strip(), value.strip(), "--set")
        else:
            problems.append(ConfigProblem(f"--set {text}", "expected name=value"))


def _last_of_each(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


def _known(settings: Mapping[str, Setting]) -> tuple[dict[str, Setting], list[ConfigProblem]]:
    """The known settings, and a warning for each unknown one."""
    known, warnings = {}, []
    for name, setting in settings.items():
        if name in OWN or name in KAFKA_NAMES:
            known[name] = setting
        elif not name.startswith("listener.name."):
            why = f"no such property{_did_you_mean(name)}"
            warnings.append(ConfigProblem(f"{name} ({setting.origin})", why))
        if name in UNENFORCED and setting.value:
            warnings.append(ConfigProblem(_where(setting), UNENFORCED[name]))
    return known, warnings


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, OWN | KAFKA_NAMES, n=1, cutoff=0.8)
    return f", did you mean {close[0]}?" if close else ""


def _resolve_synonyms(known: dict[str, Setting], problems: list[ConfigProblem]) -> None:
    """Replace Kafka's other names of a property by the usual one, unless that is set."""
    if known.get("broker.id", Setting("", "", "")).value == "-1":
        del known["broker.id"]
    both = known.get("broker.id"), known.get("node.id")
    if both[0] and both[1] and both[0].value != both[1].value:
        problems.append(
            ConfigProblem(
                _where(both[0]), f"expected the same as node.id={both[1].value} ({both[1].origin})"
            )
        )
    for old, new in SYNONYMS.items():
        if old in known:
            known.setdefault(new, known.pop(old))
    for coarse, (fine, factor) in LARGER_UNITS.items():
        if coarse in known:
            setting = known.pop(coarse)
            if _WHOLE_NUMBER.fullmatch(setting.value):
                value = str(int(setting.value) * factor)
                known.setdefault(fine, setting._replace(name=fine, value=value))
            else:
                problems.append(ConfigProblem(_where(setting), "expected an integer of at least 1"))


def _derive_listeners(known: dict[str, Setting]) -> None:
    """Change listeners as Kafka's image does.

    Listeners of controllers are removed. Without `listeners` the ports of `advertised.listeners`
    are opened on all interfaces.
    """
    controllers = known.get("controller.listener.names")
    advertised = known.get("advertised.listeners")
    if "listeners" not in known and advertised:
        known["listeners"] = advertised._replace(value=_on_all_interfaces(advertised.value))
    if controllers and "listeners" in known:
        names = {name.strip().upper() for name in controllers.value.split(",")}
        listeners = known["listeners"]
        kept = [
            part
            for part in listeners.value.split(",")
            if part.partition("://")[0].strip().upper() not in names
        ]
        known["listeners"] = listeners._replace(value=",".join(kept))


def _on_all_interfaces(advertised: str) -> str:
    try:
        parsed = parse_listeners(advertised)
    except ValueError:
        return advertised
    return ",".join(str(listener._replace(host="0.0.0.0")) for listener in parsed)  # noqa: S104


def _validate(known: Mapping[str, Setting]) -> tuple[Config, list[ConfigProblem]]:
    """The configuration and its problems.

    Wrong values are replaced by defaults, so that contradictions between other settings are
    reported in the same run.
    """
    given = {name: setting for name, setting in known.items() if name in PROPERTIES}
    values, problems = _parsed(given)
    right = {name: given[name] for name in given if PROPERTIES[name].attribute in values}
    config = Config(**values)
    problems += [ConfigProblem(_where_of(right, name), why) for name, why in contradictions(config)]
    return config, problems


def _parsed(given: Mapping[str, Setting]) -> tuple[dict[str, Any], list[ConfigProblem]]:
    """The valid values by attribute, and the problems."""
    values, problems = {}, []
    for name, setting in given.items():
        known = PROPERTIES[name]
        try:
            values[known.attribute] = known.kind.parse(setting.value)
        except ValueError as error:
            problems.append(
                ConfigProblem(_where(setting), str(error) or f"expected {known.kind.takes}")
            )
    return values, problems


def _where(setting: Setting) -> str:
    return f"{setting.name}={setting.value} ({setting.origin})"


def _where_of(given: Mapping[str, Setting], name: str) -> str:
    return _where(given[name]) if name in given else f"{name} (default)"
