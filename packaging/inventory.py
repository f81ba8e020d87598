"""Lists what the program is made of: an SBOM (CycloneDX 1.5 JSON) and the licences of all third-party parts.

Usage: inventory.py ROOT VERSION TARGET SBOM_FILE LICENCES_FILE
What counts is what is compiled in: the crates that the `codelab` crate reaches without development and build
dependencies, and the npm packages that the page carries. C sources that a `-sys` crate brings count as that crate.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

LICENCE_FILES = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
MAX_LICENCE_BYTES = 256 * 1024
HEADING = "Third-party software in CodeLab {version}, and its licences"


class Part(NamedTuple):
    """One third-party package, or one of ours."""

    ref: str
    name: str
    version: str
    licence: str
    hashes: list[dict[str, str]]
    depends_on: list[str]
    folder: Path
    is_ours: bool


def checksums(lock: Path) -> dict[tuple[str, str], str]:
    pattern = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "([0-9a-f]{64})"')
    return {(name, version): checksum for name, version, checksum in pattern.findall(lock.read_text())}


def crates(root: Path, target: str) -> list[Part]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    digests = checksums(root / "Cargo.lock")

    def linked(node: dict[str, Any]) -> list[str]:
        return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]

    start = next(key for key, package in packages.items() if package["name"] == "codelab" and package["source"] is None)
    seen, waiting = {start}, [start]
    while waiting:
        found = [key for key in linked(nodes[waiting.pop()]) if key not in seen]
        seen.update(found)
        waiting.extend(found)

    def ref(key: str) -> str:
        return f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}"

    parts = []
    for key in seen:
        package = packages[key]
        digest = digests.get((package["name"], package["version"]))
        parts.append(
            Part(
                ref=ref(key),
                name=package["name"],
                version=package["version"],
                # Old manifests separate alternatives with a slash.
                licence=(package["license"] or "").replace("/", " OR "),
                hashes=[{"alg": "SHA-256", "content": digest}] if digest else [],
                depends_on=sorted({ref(other) for other in linked(nodes[key])}),
                folder=Path(package["manifest_path"]).parent,
                is_ours=package["source"] is None,
            )
        )
    return parts


def page_packages(root: Path) -> list[Part]:
    packages = json.loads((root / "web/package-lock.json").read_text())["packages"]
    carried = {path: entry for path, entry in packages.items() if path and not entry.get("dev")}

    def ref(path: str) -> str:
        name = path.rpartition("node_modules/")[2]
        return f"pkg:npm/{name.replace('@', '%40')}@{carried[path]['version']}"

    def found_from(path: str, name: str) -> str | None:
        """Node looks in the package's own folder, then in each one above it."""
        while True:
            candidate = f"{path}/node_modules/{name}".lstrip("/")
            if candidate in carried:
                return ref(candidate)
            if not path:
                return None
            path = path.rpartition("/node_modules/")[0] if "/node_modules/" in path else ""

    parts = []
    for path, entry in carried.items():
        algorithm, _, digest = entry.get("integrity", "").partition("-")
        hashes = []
        if algorithm == "sha512":
            hashes = [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}]
        wanted = (found_from(path, name) for name in entry.get("dependencies", {}))
        parts.append(
            Part(
                ref=ref(path),
                name=path.rpartition("node_modules/")[2],
                version=entry["version"],
                licence=entry.get("license", ""),
                hashes=hashes,
                depends_on=sorted({other for other in wanted if other}),
                folder=root / "web" / path,
                is_ours=False,
            )
        )
    return parts


def component(part: Part) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "library", "bom-ref": part.ref, "name": part.name, "version": part.version}
    if part.hashes:
        shown["hashes"] = part.hashes
    if part.licence:
        shown["licenses"] = [{"expression": part.licence}]
    shown["purl"] = part.ref
    return shown


def sbom(parts: list[Part], page: list[Part], version: str, root: Path) -> dict[str, Any]:
    program = next(part for part in parts if part.name == "codelab" and part.is_ours)
    needed = {other for part in page for other in part.depends_on}
    page_roots = [part.ref for part in page if part.ref not in needed]
    locks = (root / "Cargo.lock").read_bytes() + (root / "web/package-lock.json").read_bytes()
    seed = f"codelab {version} {hashlib.sha256(locks).hexdigest()}"
    made = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    graph = {part.ref: part.depends_on for part in [*parts, *page]}
    graph[program.ref] = sorted([*graph[program.ref], *page_roots])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, seed)}",
        "version": 1,
        "metadata": {
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**component(program), "type": "application"},
        },
        "components": [component(part) for part in [*parts, *page] if part is not program],
        "dependencies": [{"ref": ref, "dependsOn": graph[ref]} for ref in sorted(graph)],
    }


def licence_texts(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE_FILES.match(path.name))
    return [path.read_text(errors="replace").strip() for path in files if path.stat().st_size <= MAX_LICENCE_BYTES]


def licences(parts: list[Part], version: str) -> str:
    """Packages that come with the same text share it."""
    owners: dict[str, list[str]] = {}
    lines = [HEADING.format(version=version), ""]
    for part in parts:
        lines.append(f"{part.name} {part.version}: {part.licence or 'see below'}")
        for text in licence_texts(part.folder):
            owners.setdefault(text, []).append(f"{part.name} {part.version}")
    for text, names in owners.items():
        lines += ["", "=" * 78, ", ".join(dict.fromkeys(names)), "=" * 78, "", text]
    return "\n".join(lines) + "\n"


def main(root: str, version: str, target: str, sbom_file: str, licences_file: str) -> None:
    by_name = lambda part: (part.ref, part.version)  # noqa: E731
    parts = sorted(crates(Path(root), target), key=by_name)
    page = sorted(page_packages(Path(root)), key=by_name)
    report = json.dumps(sbom(parts, page, version, Path(root)), indent=1, ensure_ascii=False)
    Path(sbom_file).write_text(report + "\n")
    others = [part for part in [*parts, *page] if not part.is_ours]
    Path(licences_file).write_text(licences(others, version))


if __name__ == "__main__":
    main(*sys.argv[1:])
