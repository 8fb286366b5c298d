"""A process of tests that dies fails the test that it was at, and no other."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class ByFile(LoadFileScheduling):
    """Files stay together; those left of a dead process's file are run by a new one. Its finished tests are not handed out again
    (the next one would wait for ever for something to do), nor is the one that it died of.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        files = self.assigned_work.pop(node)
        if self.collection is None:
            self.registered_collections.pop(node, None)
        running = next(((tests, test) for tests in files.values() for test in tests if not tests[test]), None)
        if running is None:
            return None
        running[0][running[1]] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return running[1]

    def _reschedule(self, node: WorkerController) -> None:
        # A process runs a test when it knows the next one, too.
        while node in self.registered_collections and not node.shutting_down:
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) >= 2:
                return
