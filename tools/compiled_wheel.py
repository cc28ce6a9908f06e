"""Builds a wheel of C: hatch-mypyc with packages in several folders, where it supports one.

Enabled by HATCH_BUILD_HOOKS_ENABLE=true; see `make compiled`.
"""

from typing import Any, Final

from hatch_mypyc import plugin

PACKAGES: Final = {
    "coordinator_pipeline": "pipeline/coordinator_pipeline",
    "coordinator_protocol": "protocol/coordinator_protocol",
}
"""Folders of the packages that are not at the top."""


class CompiledWheel(plugin.MypycBuildHook):  # type: ignore[misc] # has no types
    """Puts the extension of each module beside its source."""

    @property
    def package_source(self) -> str:
        """The folder of the library that all extensions share: the top."""
        return ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile."""
        plugin.construct_setup_file = _setup_file
        super().initialize(version, build_data)


def _setup_file(_package_source: str, *paths: str, **options: object) -> str:
    return f"""\
from setuptools import setup
from mypyc.build import mypycify

setup(
    name="mypyc_output",
    ext_modules=mypycify({list(paths)!r}, **{options!r}),
    package_dir={PACKAGES!r},
)
"""


def get_build_hook() -> type[CompiledWheel]:
    """Called by hatchling, which finds two hooks in this module."""
    return CompiledWheel
