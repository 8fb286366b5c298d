"""What a node will import is known from its file."""

from __future__ import annotations

from bgbias.engine.imported import imports_of


def test_what_nodes_always_import_is_known_before_they_run() -> None:
    found = imports_of("train")
    assert {"bgbias.nodes.train", "bgbias.training.loop", "bgbias.models.model.save"} <= set(found)
    assert "torch" not in imports_of("score")
    for no_node in ("", "status", "train.py", "../nodes/train", "_nothing"):
        assert imports_of(no_node) == []
