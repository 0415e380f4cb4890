"""The checks of the annotator have their names, so that each can be found: ``pytest -k NAME``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# Where: P the page, L JupyterLab, S in short Notebook 7 or marimo.
CHECKS = {
    "test_reload_keeps_everything": "P L",
    "test_open_adds_to_the_queue": "P",
    "test_server_killed_twenty_times": "P",
    "test_closed_tab_opened_by_address": "P",
    "test_kernel_restarted": "L S",
    "test_two_views_of_one_session": "P L",
    "test_two_processes_of_one_folder": "P L",
    "test_read_only_and_full_disk": "P",
    "test_moved_renamed_changed_images": "P",
    "test_thousand_sequences": "P",
    "test_undo_of_results": "P L",
    "test_keys_everywhere": "P L S",
    "test_broken_images": "P L",
    "test_layout": "P L",
    "test_sentences": "P",
    "test_classes": "P L",
    "test_strokes_equal_numpy": "P",
    "test_fill_smooth_split_merge": "P",
    "test_answers_and_points": "P L",
    "test_zoom_is_true": "P",
    "test_clip_in_background": "P L",
    "test_to_check": "P",
    "test_exports_by_their_owners": "P",
    "test_speed_and_memory": "P L",
    "test_keyboard_touch_and_walls": "P S",
}
FOLDER = Path(__file__).parent
FILES = {
    "P": ["test_page_*.py"],
    "L": ["test_notebook_checks.py", "test_page_checks.py", "test_page_repair.py"],
    "S": ["test_notebook_checks.py", "test_page_checks.py", "test_marimo.py"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_found_by_its_name(name: str) -> None:
    assert len(CHECKS) == 25
    for host in CHECKS[name].split():
        files = [path for pattern in FILES[host] for path in FOLDER.glob(pattern)]
        assert any(re.search(rf"^def {name}", path.read_text(), re.MULTILINE) for path in files), (
            host
        )
