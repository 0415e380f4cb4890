"""Fixtures of the reader tests."""

import pytest
import sam_rlx.errors


@pytest.fixture
def refuse(testing, tmp_path):
    """Write a file and return the text of the CheckpointError that opening it raises."""

    def check(content):
        path = tmp_path / "bad.file"
        path.write_bytes(content)
        with pytest.raises(sam_rlx.errors.CheckpointError) as caught:
            testing.open_checkpoint(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    return check
