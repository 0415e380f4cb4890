"""Render the recipe of conda-forge for every platform. Needs py-rattler-build; builds nothing."""

import sys
import tomllib
from pathlib import Path

from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

ROOT = Path(__file__).parents[1]
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64")
# What conda-forge adds to the recipe when it builds.
VARIANTS = {
    "python": ["3.11.* *_cpython", "3.14.* *_cp314"],
    "python_min": ["3.11"],
    "cxx_compiler": ["gxx"],
    "c_stdlib": ["sysroot"],
}


def requirements(project: str) -> tuple[str, list[str]]:
    """Return version and run-time requirements of a project, from its pyproject.toml."""
    table = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))
    return table["project"]["version"], table["project"].get("dependencies", [])


def main() -> int:
    """Render, and compare versions and requirements with the packages': 1 if they differ."""
    recipe = Stage0Recipe.from_file(str(ROOT / "recipe" / "recipe.yaml"))
    text = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    wrong = []
    for project in (".", "packages/sam-rlx-nano"):
        _, needed = requirements(project)
        wrong += [need for need in needed if need.replace(">=", " >=") not in text]
    version, nano = requirements(".")[0], requirements("packages/sam-rlx-nano")[0]
    for platform in PLATFORMS:
        config = RenderConfig(platform=PlatformConfig(target_platform=platform))
        found = recipe.render(VariantConfig(VARIANTS), config)
        names = sorted({(str(v.recipe.package.name), str(v.recipe.package.version)) for v in found})
        if names != [("sam-rlx", version), ("sam-rlx-nano", nano)]:
            wrong.append(f"{platform}: {names}")
        print(f"{platform}: {len(found)} packages")
    for problem in wrong:
        print(f"recipe.yaml lacks {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
