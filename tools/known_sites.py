"""Write the list of search engines, social networks and AI assistants that attrib_ds ships.

    git clone https://github.com/matomo-org/searchengine-and-social-list list
    python tools/known_sites.py list

The list is in the public domain (CC0 1.0). Names and hosts are kept, query parameters are not.
"""

import subprocess
import sys
from pathlib import Path

import yaml

TARGET = Path(__file__).parents[1] / "attrib_ds" / "traffic" / "known_sites.tsv"
ORIGIN = "https://github.com/matomo-org/searchengine-and-social-list"
FILES = {"search": "SearchEngines.yml", "social": "Socials.yml", "ai": "AIAssistants.yml"}


def git(folder: str, *arguments: str) -> str:
    """Return what a git command prints."""
    command = ["git", "-C", folder, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(folder: str) -> None:
    """Write the list from a clone of its repository."""
    commit, date = git(folder, "log", "-1", "--format=%H %cs").split()
    lines = [f"# {ORIGIN}, commit {commit} of {date}; CC0 1.0 (public domain)", "kind\tname\thost"]
    for kind, file in FILES.items():
        sites = yaml.safe_load(git(folder, "show", f"HEAD:{file}"))
        for name, entries in sites.items():
            listed = [entry["urls"] if isinstance(entry, dict) else [entry] for entry in entries]
            hosts = sorted({host for urls in listed for host in urls if "/" not in host})
            lines += [f"{kind}\t{name}\t{host}" for host in hosts]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
