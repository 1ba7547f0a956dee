"""The tracking script as it is served."""

import gzip
import hashlib
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from attrib_ds.service.http import pages
from attrib_ds.service.http.pages import tracking_script

SOURCES = Path(pages.__file__).parent / "tracker"
ROOT = Path(__file__).parents[4]
TSC = shutil.which("tsc")


def test_the_guide_says_the_size_of_the_script_as_it_is_served():
    guide = (ROOT / "docs/how-to/measure-a-site.md").read_text(encoding="utf-8")
    whole, compressed = map(float, re.findall(r"The script is ([\d.]+) kB, ([\d.]+) kB compressed", guide)[0])
    script = tracking_script()
    assert (whole, compressed) == (round(len(script.content) / 1e3), round(len(script.compressed) / 1e3, 1))
    assert compressed < 6
    assert len(script.content) < 16_000


def test_the_script_is_served_compressed_with_its_integrity_hash(anyone):
    plain = anyone("GET", "/t.js")
    assert plain.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert plain.headers["Cache-Control"] == "public, max-age=3600"
    assert plain.headers["Vary"] == "Accept-Encoding"
    # For the attributes integrity and crossorigin of a script of another origin.
    assert plain.headers["Access-Control-Allow-Origin"] == "*"
    digest = b64encode(hashlib.sha384(plain.content).digest()).decode()
    assert tracking_script().integrity == f"sha384-{digest}"
    compressed = anyone("GET", "/t.js?v=1", Accept_Encoding="br, gzip")
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == plain.content
    for refused in ("gzip;q=0", "br, gzip; q=0.0, *"):
        assert "Content-Encoding" not in anyone("GET", "/t.js", Accept_Encoding=refused).headers
    assert "Content-Encoding" in anyone("GET", "/t.js", Accept_Encoding="gzip;q=0.5").headers


def test_a_client_that_has_the_script_gets_no_content(anyone):
    etag = anyone("GET", "/t.js").headers["ETag"]
    reply = anyone("GET", "/t.js", If_None_Match=f'"other", {etag}')
    assert (reply.status, reply.content, reply.headers["ETag"]) == (304, b"", etag)
    assert anyone("GET", "/t.js", If_None_Match='"other"').status == 200


def test_the_served_script_differs_by_comments_and_indentation_only():
    source = (SOURCES / "t.js").read_text(encoding="utf-8")
    code = [line.strip() for line in tracking_script().content.decode().splitlines()]
    hint = code.pop(0)
    assert hint == source.splitlines()[0] == "//# allFunctionsCalledOnLoad"
    assert not [line for line in code if re.match(r"\*|//", line) or "/*" in line]
    # In the same order, nothing else is missing.
    left = iter(re.sub(r"/\*\* @.*?\*/ ?", "", line).strip() for line in source.splitlines())
    assert all(line in left for line in code)
    assert code[0] == "(function () {"
    assert code[-1] == "})();"


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(TSC is None, reason="TypeScript is not installed")
def test_the_types_of_the_script_are_right():
    libraries = "es2022,dom,dom.iterable"
    options = ["--allowJs", "--checkJs", "--noEmit", "--strict", "--target", "es2022", "--lib", libraries]
    checked = subprocess.run([TSC, *options, SOURCES / "t.js"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
