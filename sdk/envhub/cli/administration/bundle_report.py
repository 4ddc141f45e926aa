"""What a bundle holds, and what is lacking, for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from envhub.cli.terminal.session import Session
from envhub.protocol.registry.bundles import BundleGap, BundleManifest

MB = 1024**2


def print_contents(session: Session, file: Path, manifest: BundleManifest, key: str, signature: str) -> None:
    """A few lines."""
    part, lock = manifest.version, manifest.version.lock
    built = sum(wheel.built_from_source for wheel in lock.wheels)
    session.fields(
        {
            "bundle": f"{file}: {manifest.size / MB:.1f} MB in {len(manifest.blobs)} files, all as they should be",
            "version": manifest.reference,
            "lock": f"{len(lock.wheels)} wheels ({built} built from source), verifiers {lock.verifiers or '(none)'}, "
            f"Python {lock.python} on {lock.platform}, {part.lock_sha256[:12]}",
            "data": [f"{one.repository}@{one.revision[:8]}" for one in manifest.snapshots],
            "files": [one.name for one in manifest.files],
            "images": [one.name for one in manifest.images],
            "models": [f"{one.owner}/{one.name}" + (f" on {one.base}" if one.base else "") for one in manifest.models],
            "checks": [f"{check.name} {'passed' if check.passed else 'did not pass'}" for check in part.checks],
            "made": f"{manifest.created_at:%Y-%m-%d %H:%M} UTC by {manifest.exported_by} at {manifest.hub}",
            signature: key,
        }
    )
    print_gaps(session, manifest.missing)


def print_gaps(session: Session, gaps: Iterable[BundleGap]) -> None:
    """A warning for each, with what to do."""
    for gap in gaps:
        session.note(f"warning: {gap.what}: {gap.why}" + (f"\n  {gap.hint}" if gap.hint else ""))
