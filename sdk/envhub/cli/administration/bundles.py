"""`hub bundle export|import|inspect|key`: a version with all that it runs with, carried to a hub without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.administration.bundle_report import print_contents, print_gaps
from envhub.cli.environments.version_card import print_needs
from envhub.cli.terminal import completing
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.progress import goes_on, run_progress, transfer
from envhub.cli.terminal.references import model_reference, parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.client.blobs import LocalBlob
from envhub.errors import EnvhubError, UsageError
from envhub.packaging.bundle_keys import CAN_VERIFY, verify
from envhub.packaging.bundles import Bundle, open_bundle, read_manifest, whole_file, write_bundle
from envhub.protocol.registry.bundles import BundleBlob, BundleExport, BundleImport, BundleImported, BundleRequest
from envhub.protocol.registry.packages import VersionState, VersionView

File = Annotated[Path, typer.Argument(help="The bundle.", exists=True, dir_okay=False)]


def export(
    ctx: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="owner/name or owner/name@version.", autocompletion=completing.environments)
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: NAME-VERSION.bundle here.")] = None,
    adapter: Annotated[
        list[str] | None, typer.Option(help="An adapter or trained model of the catalog, OWNER/NAME (repeatable).")
    ] = None,
    with_adapters: Annotated[
        bool, typer.Option("--with-adapters", help="All final adapters that were trained with this version.")
    ] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(help="An additional data set that its checks do not load, OWNER/NAME (repeatable)."),
    ] = None,
    image: Annotated[list[str] | None, typer.Option(help="An additional sandbox image (repeatable).")] = None,
    json: JsonFlag = False,
) -> None:
    """Write a version with its wheels, data sets and images to one signed file."""
    session = current(ctx)
    wanted = parse(session, environment)
    request = BundleRequest(
        models=tuple(model_reference(session, name) for name in adapter or ()),
        trained=with_adapters,
        data=tuple(data or ()),
        images=tuple(image or ()),
    )
    offered = session.hub.bundles.export(wanted.environment, wanted.version_or_latest, request)
    manifest = read_manifest(offered.manifest)
    target = output or Path(f"{manifest.version.name}-{manifest.version.version}.bundle")
    if not target.parent.is_dir():
        raise UsageError(f"there is no directory {target.parent}", hint="Create it first.")
    with transfer(session, "downloading", manifest.size) as moved, whole_file(target) as sink:
        write_bundle(sink, offered.manifest, offered.signature, _contents(session, offered, manifest.blobs, moved))
    value = {"file": target, "size": target.stat().st_size, "key": offered.signature.key, "manifest": manifest}
    session.show(value, lambda: print_contents(session, target, manifest, offered.signature.key, "signed by"))


def _contents(
    session: Session, offered: BundleExport, blobs: tuple[BundleBlob, ...], moved: Callable[[int], None]
) -> Iterator[tuple[BundleBlob, Iterator[bytes]]]:
    def pieces(blob: BundleBlob) -> Iterator[bytes]:
        for piece in session.hub.bundles.pieces(offered.urls[blob.sha256]):
            moved(len(piece))
            yield piece

    for blob in blobs:
        yield blob, pieces(blob)


def import_bundle(
    ctx: typer.Context,
    file: File,
    owner: Annotated[str | None, owner_option("Its new owner (default: you).")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the build.")] = True,
    json: JsonFlag = False,
) -> None:
    """Import a bundle into this hub, and wait until its version is ready. An interrupted import resumes."""
    session = current(ctx)
    bundle = open_bundle(file)
    blobs = {
        blob.sha256: LocalBlob(blob.sha256, blob.size, file, bundle.offsets[blob.sha256])
        for blob in bundle.manifest.blobs
    }
    request = BundleImport(
        owner=owner or session.configuration.owner, manifest=bundle.manifest_text, signature=bundle.signature
    )
    with transfer(session, "uploading", bundle.manifest.size) as moved:
        done = session.hub.bundles.bring(request, blobs, moved)
    if done.version is None:
        raise EnvhubError("the hub did not report the outcome of the import", code="bad_answer")
    view = _await_build(session, done, done.version) if wait else done.version
    session.show(done.model_copy(update={"version": view}), lambda: _report(session, done, view))
    if wait and view.state is not VersionState.READY:
        raise typer.Exit(1)


def _await_build(session: Session, done: BundleImported, version: VersionView) -> VersionView:
    run_id = done.build_run_id or version.build_run_id
    if version.state is VersionState.BUILDING and run_id:
        with goes_on(session, f"`hub run show {run_id}` looks at the build"), run_progress(session, "build") as show:
            for run in session.hub.runs.watch(run_id):
                show(run)
    return session.hub.environments.version(f"{version.owner}/{version.name}", version.version)


def _report(session: Session, done: BundleImported, view: VersionView) -> None:
    reference = f"{view.owner}/{view.name}@{view.version}"
    if not done.created:
        session.note(f"unchanged: {reference} was here already")
    for words in done.added:
        session.out.print(f"added {words}", markup=False)
    print_gaps(session, done.lacking)
    color = {VersionState.READY: "green", VersionState.INVALID: "red"}.get(view.state, "yellow")
    session.out.print(f"[{color}]{view.state}[/] {reference}")
    if view.failure:
        session.fail(EnvhubError(view.failure.message, code=view.failure.code, hint=view.failure.hint))
    print_needs(session, view)


def inspect(ctx: typer.Context, file: File, json: JsonFlag = False) -> None:
    """Show what a bundle contains and who signed it, and check every byte, without a hub."""
    session = current(ctx)
    bundle = open_bundle(file)
    with transfer(session, "reading", bundle.manifest.size) as moved:
        for blob in bundle.manifest.blobs:
            for size in bundle.verify(blob):
                moved(size)
    said = _signature(bundle)
    value = {"manifest": bundle.manifest, "key": bundle.signature.key, "signature": said, "content": "ok"}
    session.show(value, lambda: print_contents(session, file, bundle.manifest, bundle.signature.key, said))


def _signature(bundle: Bundle) -> str:
    """Raises ArchiveError for one that does not fit."""
    if not CAN_VERIFY:
        return "not verified (`pip install cryptography`; hubs verify in any case), claims to be of"
    verify(bundle.manifest_text, bundle.signature)
    return "signed by"


def key(ctx: typer.Context, json: JsonFlag = False) -> None:
    """Print the key that this hub signs bundles with, for other hubs' HUB_TRUSTED_BUNDLE_KEYS."""
    session = current(ctx)
    found = session.hub.bundles.key()
    session.show(found, lambda: session.fields({"signs with": found.key, "trusts": "\n".join(found.trusted)}))
