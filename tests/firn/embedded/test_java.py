from __future__ import annotations

from pathlib import Path

import pytest

from firn.embedded.errors import JavaUnsuitable
from firn.embedded.java import Java, NoJava, find_java
from firn.embedded.process import require_java


def a_java(directory: Path, *, says: str) -> Path:
    """A program named java that prints what a Java of some version would."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.4-ea"])
def test_java_17_and_21_are_suitable(tmp_path: Path, version: str) -> None:
    java = a_java(tmp_path, says=f'openjdk version "{version}" 2025-04-15')
    assert find_java({"JAVA_HOME": str(tmp_path)}) == Java(path=java, version=version)


def test_java_may_speak_of_its_options_before_it_names_its_version(tmp_path: Path) -> None:
    a_java(tmp_path, says='Picked up JAVA_TOOL_OPTIONS: -Dx=25\nopenjdk version "17.0.1"')
    assert isinstance(find_java({"JAVA_HOME": str(tmp_path)}), Java)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.1", "25.0.3", "170"])
def test_another_java_is_named_with_its_version_and_what_is_needed(tmp_path: Path, version: str) -> None:
    java = a_java(tmp_path, says=f'openjdk version "{version}"')
    java_home = find_java({"PATH": str(java.parent) + ":/usr/bin:/bin"})
    assert isinstance(java_home, NoJava)
    assert f"{java} is Java {version}." in java_home.reason
    assert "need Java 17 or 21" in java_home.reason
    assert "JAVA_HOME" in java_home.reason


def test_java_home_goes_before_the_search_path(tmp_path: Path) -> None:
    right = a_java(tmp_path / "right", says='openjdk version "17.0.1"')
    wrong = a_java(tmp_path / "wrong", says='openjdk version "11.0.1"')
    assert find_java({"JAVA_HOME": str(tmp_path / "right"), "PATH": str(wrong.parent)}) == Java(
        path=right, version="17.0.1"
    )


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path) -> None:
    on_path = a_java(tmp_path, says='openjdk version "17.0.1"')
    java_home = find_java({"JAVA_HOME": "/nowhere", "PATH": str(on_path.parent)})
    assert isinstance(java_home, NoJava)
    assert "JAVA_HOME is /nowhere" in java_home.reason


def test_no_java_at_all_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.embedded.java.INSTALLED_UNDER", tmp_path)
    java_home = find_java({"PATH": str(tmp_path)})
    assert isinstance(java_home, NoJava)
    assert "No Java was found" in java_home.reason
    assert "apt-get install openjdk-17-jre-headless" in java_home.reason


def test_a_suitable_java_elsewhere_is_pointed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "a-25", says='openjdk version "25"')
    a_java(tmp_path / "b-21", says='openjdk version "21.0.1"')
    monkeypatch.setattr("firn.embedded.java.INSTALLED_UNDER", tmp_path)
    java_home = find_java({"PATH": "/nowhere"})
    assert isinstance(java_home, NoJava)
    assert f"set JAVA_HOME to {tmp_path / 'b-21'}" in java_home.reason


def test_a_program_that_is_no_java_is_named(tmp_path: Path) -> None:
    java = a_java(tmp_path, says="hello")
    java_home = find_java({"JAVA_HOME": str(tmp_path)})
    assert isinstance(java_home, NoJava)
    assert f"{java} does not run as Java" in java_home.reason


def test_what_needs_java_refuses_to_start_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path, says='openjdk version "11.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnsuitable, match=r"is Java 11\.0\.1"):
        require_java()
