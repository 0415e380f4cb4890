"""What a release has to say about itself: versions, and the sums of its files.

``python packages/release.py`` checks that one version is named everywhere; with ``--fill dist`` it
first writes into the recipe what the files in a folder say, and ``SHA256SUMS`` beside them. The
list of steps is in docs/develop/release.md.
"""

import argparse
import hashlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNKNOWN = "0" * 64  # the sum of a file that was not made yet
# Package, the folder of its pyproject.toml, and its name in the recipe's context.
PACKAGES = {
    "sam_rlx": (".", "version"),
    "sam_rlx_nano": ("packages/sam-rlx-nano", "nano_version"),
}
RECIPE = "recipe/recipe.yaml"


def version_of(root: Path, folder: str) -> str:
    """Return the version in the pyproject.toml of a folder."""
    text = (root / folder / "pyproject.toml").read_text(encoding="utf-8")
    version: str = tomllib.loads(text)["project"]["version"]
    return version


def versions(root: Path) -> dict[str, str]:
    """Return the version of each package."""
    return {name: version_of(root, folder) for name, (folder, _) in PACKAGES.items()}


def problems(root: Path) -> list[str]:
    """Return what does not fit, a line each."""
    recipe = (root / RECIPE).read_text(encoding="utf-8")
    found = []
    for name, (_, field) in PACKAGES.items():
        version = versions(root)[name]
        line = f'\n  {field}: "{version}"\n'
        if line not in recipe:
            found.append(f"{RECIPE}: expected {line.strip()}, found another version of {name}")
        if sum_in(recipe, name) is None:
            found.append(f"{RECIPE}: expected one sha256 below the address of {name}, found none")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if "\n## Unreleased\n" not in changes:
        found.append("CHANGELOG.md: expected a heading Unreleased, found none")
    return found


def _sum_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf'(/{name}-\$\{{\{{ \w+ \}}\}}\.tar\.gz\n +sha256: )"([0-9a-f]{{64}})"')


def sum_in(recipe: str, name: str) -> str | None:
    """Return the sum that a recipe has for the source distribution of a package."""
    found = _sum_pattern(name).search(recipe)
    return None if found is None else found[2]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def fill(root: Path, folder: Path) -> list[str]:
    """Write versions and sums into the recipe, and SHA256SUMS; return what was written.

    Raises
    ------
    SystemExit
        A source distribution is missing, or is of another version.
    """
    recipe = (root / RECIPE).read_text(encoding="utf-8")
    told = []
    for name, version in versions(root).items():
        path = folder / f"{name}-{version}.tar.gz"
        if not path.is_file():
            raise SystemExit(f"{folder}: expected {path.name}, found no such file")
        field = PACKAGES[name][1]
        recipe = re.sub(rf'(\n  {field}: )"[^"]*"', rf'\g<1>"{version}"', recipe)
        recipe = _sum_pattern(name).sub(rf'\g<1>"{digest(path)}"', recipe)
        told.append(f"{RECIPE}: {name} {version}, sha256 {digest(path)}")
    (root / RECIPE).write_text(recipe, encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".gz", ".whl"))
    lines = [f"{digest(path)}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return [*told, f"{folder / 'SHA256SUMS'}: {len(files)} files"]


def main(argv: list[str] | None = None) -> int:
    """Fill, if asked for, and check: 1 if something does not fit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fill", type=Path, metavar="FOLDER", help="of the built distributions")
    args = parser.parse_args(argv)
    if args.fill is not None:
        for line in fill(ROOT, args.fill):
            print(line)
    found = problems(ROOT)
    for line in found:
        print(line)
    if not found:
        print(", ".join(f"{name} {version}" for name, version in versions(ROOT).items()))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
