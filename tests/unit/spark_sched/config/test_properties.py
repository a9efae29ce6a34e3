"""Properties files: what is written is read back, by us and by Java's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config import format_properties, parse_properties, read_properties
from spark_sched.errors import BadInputError

_KEYS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
_VALUES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")).map(str.strip)


@given(st.dictionaries(_KEYS.filter(lambda key: key == key.strip()), _VALUES))
def test_what_is_written_is_read_back(entries):
    assert parse_properties(format_properties(entries, comment="two\nlines")) == entries


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        pytest.param("a=b", {"a": "b"}, id="equals"),
        pytest.param("a : b", {"a": "b"}, id="colon with blanks"),
        pytest.param("a   b c ", {"a": "b c"}, id="blanks, and the value trimmed"),
        pytest.param("# x\n! y\n\n a=b", {"a": "b"}, id="comments and empty lines"),
        pytest.param("a=b=c", {"a": "b=c"}, id="only the first sign separates"),
        pytest.param("a\\ b\\=c=d", {"a b=c": "d"}, id="escaped separators belong to the key"),
        pytest.param("a=one \\\n   two", {"a": "one two"}, id="a continued line"),
        pytest.param("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}, id="an escaped backslash ends its line"),
        pytest.param("a=\\u00e9\\tx", {"a": "é\tx"}, id="unicode and tab escapes"),
        pytest.param("a", {"a": ""}, id="a key alone"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the last of two wins"),
        pytest.param("a=b\r\nc=d\r\n", {"a": "b", "c": "d"}, id="Windows line ends"),
    ],
)
def test_java_rules(text, entries):
    assert parse_properties(text) == entries


def test_a_file_that_is_absent_is_one_sentence(tmp_path):
    with pytest.raises(BadInputError, match=r"properties file .*none.conf cannot be read \(No such file"):
        read_properties(tmp_path / "none.conf")


def test_a_broken_escape_is_one_sentence(tmp_path):
    path = tmp_path / "bad.conf"
    path.write_text("a=\\user\n")
    with pytest.raises(BadInputError, match=r"has the broken escape .*: double the backslash"):
        read_properties(path)


def test_binary_content_is_one_sentence(tmp_path):
    path = tmp_path / "bad.conf"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match="is not UTF-8 text"):
        read_properties(path)
