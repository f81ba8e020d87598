"""Checks compose.yaml as far as that goes without an engine: it parses, what it names exists, and what it promises is set.

Usage: compose.py COMPOSE_FILE ENV_EXAMPLE VERSION
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml


def problems(compose: dict[str, Any], text: str, example: str, version: str) -> list[str]:
    services = compose["services"]
    found = [f"service {name} is missing" for name in ("codelab", "postgres", "redis", "qdrant") if name not in services]
    for name, service in services.items():
        for network in service.get("networks", []):
            if network not in compose["networks"]:
                found.append(f"{name}: unknown network {network}")
        for volume in service.get("volumes", []):
            if volume.split(":")[0] not in compose["volumes"]:
                found.append(f"{name}: unknown volume {volume}")
        for other in service.get("depends_on", {}):
            if "healthcheck" not in services[other]:
                found.append(f"{name} waits for the health of {other}, which has no health check")
        if re.search(r":latest$|^[^:]+$", service["image"]):
            found.append(f"{name}: the image has no version")
        if name != "codelab" and ("ports" in service or service["networks"] != ["inside"]):
            found.append(f"{name} can be reached from outside")
    own = services["codelab"]
    if own["image"] != f"codelab:{version}":
        found.append(f"the image is {own['image']}")
    if not own.get("read_only") or own.get("cap_drop") != ["ALL"]:
        found.append("codelab: the root is not read-only, or capabilities are kept")
    if not all(port.startswith("127.0.0.1:") for port in own["ports"]):
        found.append("codelab listens to other machines")
    if not compose["networks"]["inside"].get("internal"):
        found.append("the inner network leads outside")
    for name in set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", text)):
        if not re.search(rf"^#?{name}=", example, re.MULTILINE):
            found.append(f"{name} is not in env.example")
    return found


def main(compose_file: str, example_file: str, version: str) -> int:
    text = Path(compose_file).read_text()
    found = problems(yaml.safe_load(text), text, Path(example_file).read_text(), version)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
