"""Documents as pages: addresses of headings, links between files, the search, nothing active."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from hub.core.errors import Conflict
from hub.training.charts.panels import PANELS, REWARD
from hub.web.documentation.contents import ENTRIES, ROOT, Entry, linked
from hub.web.documentation.documents import REPLACE_IT, Section, addressed, document, explanation, rendered, search
from hub.web.documentation.export import export_documents
from hub.web.templatetags.hub_help import chart_section
from tests.hub.web.browser import LookAt

GUIDE = Entry("self-hosting", "frontend/docs/self-hosting.md")


def test_headings_have_addresses_of_their_own_and_html_is_text() -> None:
    shown = rendered(GUIDE, "# Title\nFirst <script>x</script>\n## What `it` is\na\n## What it is\nb\n### Deeper\nc\n")
    assert (shown.title, [one.title for one in shown.headings]) == ("Title", ["What it is", "What it is"])
    assert [one.anchor for one in shown.sections] == ["", "what-it-is", "what-it-is-2", "deeper"]
    assert 'id="what-it-is-2"' in shown.html
    assert "<script" not in shown.html


def test_guides_show_the_hubs_own_address_and_files_do_not(client: Client) -> None:
    page = client.get("/docs/first-environment").content.decode()
    assert "envhub[cli] @ http://127.0.0.1:8000/cli/envhub-" in page
    assert "hub login http://127.0.0.1:8000 " in page
    assert ("as your browser shows it" in page, "HUB<" in page) == (False, False)
    assert REPLACE_IT in (ROOT / ENTRIES["first-environment"].file).read_text(encoding="utf-8")
    assert "hub login HUB" in document("first-environment").html
    assert addressed(r"HUB\_DATA", "http://a") == r"HUB\_DATA"
    assert addressed("`HUB_URL` https://HUB/x MYHUB HUB", "http://a") == "`HUB_URL` http://a/x MYHUB http://a"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("../../infra/settings.md#boxes", "/docs/settings#boxes"),
        ("numbers.md", "/docs/numbers"),
        ("#people", "/docs/self-hosting#people"),
        ("../../ARCHITECTURE.md", None),
    ],
)
def test_links_between_files_lead_to_documents(target: str, address: str | None) -> None:
    assert linked(GUIDE, target) == address


def test_a_file_that_is_no_document_loses_its_link() -> None:
    html = rendered(
        GUIDE, "# T\n[code](../../hub/README.md) and [here](numbers.md#coverage) and [there](https://a.b)"
    ).html
    assert "<span>code</span>" in html
    assert re.findall('href="([^"]*)"', html) == ["/docs/numbers#coverage", "https://a.b"]


@pytest.mark.parametrize("slug", ENTRIES)
def test_every_link_of_every_document_leads_to_a_place_that_is_there(slug: str) -> None:
    for address in re.findall(r'href="/docs/([^"]*)"', document(slug).html):
        other, _, anchor = address.partition("#")
        assert anchor in {section.anchor for section in document(other).sections}, address


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_file_that_a_document_links_to_is_there(entry: Entry) -> None:
    source = ROOT / entry.file
    for target in re.findall(r"\]\(((?!https?:|mailto:|#|/)[^)#\s]+)", source.read_text()):
        assert (source.parent / target).exists(), target


def test_what_pages_explain_by_a_document_is_there() -> None:
    templates = (ROOT / "frontend/templates").rglob("*.html")
    told = {at for path in templates for at in re.findall(r'_help.html" with at="([^"]*)"', path.read_text())}
    assert told
    for at in told:
        assert len(explanation(at)) > 20, at


def test_each_chart_of_a_training_run_whose_title_is_no_plain_word_is_explained() -> None:
    unexplained = {panel.title for panel in (REWARD, *PANELS) if not chart_section(panel.title)}
    assert unexplained == {"Trained tokens", "Time of a step", "Memory at peak", "Learning rate"}


def test_the_search_puts_headings_first_and_shows_the_place() -> None:
    found = search("coverage")
    assert (found[0].section.slug, found[0].section.anchor) == ("numbers", "coverage")
    assert found[0].document == "How to read the numbers"
    named = search("hub_trusted_bundle_keys")
    assert "settings" in {one.section.slug for one in named}
    assert {one.match for one in named} == {"HUB_TRUSTED_BUNDLE_KEYS"}
    assert search("bad_hash match")[0].section.title == "bad_hash"
    assert search("coverage zebra") == search("  ") == []


def test_pages_answer_everybody_and_say_what_is_missing() -> None:
    client = Client()
    assert client.get("/docs").headers["Location"] == "/docs/first-environment"
    for slug in ENTRIES:
        assert document(slug).title in client.get(f"/docs/{slug}").content.decode()
    assert "<mark>" in client.get("/docs", {"q": "entropy"}).content.decode()
    assert "Nothing matches" in client.get("/docs", {"q": "xyzzy"}).content.decode()
    assert client.get("/docs/nothing").status_code == 404


def test_the_exported_files_lead_to_one_another_and_nowhere_else(tmp_path: Path) -> None:
    count = export_documents(tmp_path / "site")
    pages = {path.name: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    assert len(pages) == count + 2 == len(ENTRIES) + 2  # the first one twice, and the search
    for name, html in pages.items():
        for address in re.findall(r'(?:href|src)="([^"]*)"', html):
            file, _, anchor = address.partition("#")
            if file.startswith(("https://", "http://", "mailto:")):
                continue
            assert (tmp_path / "site" / (file or name)).is_file(), (name, address)
            assert not anchor or f'id="{anchor}"' in pages[file or name], (name, address)


def test_nothing_is_exported_over_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(Conflict, match="not empty"):
        export_documents(tmp_path)


@pytest.mark.browser
def test_the_exported_search_finds_what_the_hub_finds(tmp_path: Path, look_at: LookAt) -> None:
    export_documents(tmp_path / "site")
    with look_at((tmp_path / "site").as_uri(), width=360) as look:
        look.open("/numbers.html")
        look.page.fill("#q", "coverage")
        look.page.press("#q", "Enter")
        look.page.wait_for_url("**/search.html?q=coverage")
        for words in ("coverage", "HUB_TRUSTED_BUNDLE_KEYS", "bad_hash promised", "the a of", "<b>"):
            look.page.fill("#q", words)
            told = look.page.eval_on_selector_all("#results li", "all => all.map(one => one.innerText)")
            links = look.page.eval_on_selector_all("#results a", "all => all.map(one => one.getAttribute('href'))")
            found = search(words)
            assert [address_of(one.section) for one in found] == links, words
            for one, text in zip(found, told, strict=True):
                assert " ".join(f"{one.before}{one.match}{one.after}".split()) in " ".join(text.split())
        look.page.fill("#q", "xyzzy")
        assert "Nothing matches" in look.page.inner_text("#results")
        assert (look.overflow(), look.complaints) == (0, [])
        assert (
            look.barriers() == []
        )  # after the complaints: axe asks for the files, which a page that is a file may not


def address_of(section: Section) -> str:
    """Its place in the exported files."""
    return f"{section.slug}.html" + (f"#{section.anchor}" if section.anchor else "")
