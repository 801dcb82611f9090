"""What holds of every proof beside an artifact: nothing that is another's makes one."""

from __future__ import annotations

from pathlib import Path

from swaps import sample


def test_no_part_of_another_proof_and_nothing_that_contradicts_it_is_taken(tmp_path: Path) -> None:
    count, taken = sample(tmp_path, (1_500, 600))
    assert taken == []
    assert count == 2_100
