"""Run by the Go test TestPython, against a server at TASKQUEUE_URL."""

import os
import threading
import time
import unittest

from taskqueue import Never, TaskQueue, TaskQueueError, Worker

FINAL = ("COMPLETED", "FAILED", "DEAD", "CANCELLED")


class Test(unittest.TestCase):
    def setUp(self):
        self.client = TaskQueue(os.environ["TASKQUEUE_URL"])

    def until(self, what, condition):
        for _ in range(3000):
            value = condition()
            if value:
                return value
            time.sleep(0.01)
        self.fail(what + " never happened")

    def ended(self, id):
        def end():
            task = self.client.task(id)
            return task["status"] in FINAL and task

        return self.until("the end of " + id, end)

    def test_requests(self):
        c = self.client
        content = {"type": "send", "payload": {"to": "ä"}, "key": "py-1", "priority": 9}
        one = c.submit("py-api", content)
        self.assertEqual(c.submit("py-api", content)["id"], one["id"])
        with self.assertRaises(TaskQueueError) as refused:
            c.submit("py-api", {"type": "other", "key": "py-1"})
        self.assertEqual((refused.exception.status, refused.exception.code), (409, "key_reused"))
        with self.assertRaises(TaskQueueError) as refused:
            c.task("nonsense")
        self.assertEqual(refused.exception.code, "bad_id")
        self.assertEqual(c.task(one["id"])["payload"], {"to": "ä"})
        self.assertIsNone(c.claim("py-empty", {"worker": "py"}))
        claim = c.claim("py-api", {"worker": "py", "lease": "30s", "wait": "20s"})
        self.assertEqual(claim["id"], one["id"])
        token = {"worker": "py", "claim": claim["claim"]}
        c.heartbeat(one["id"], token)
        with self.assertRaises(TaskQueueError) as refused:
            c.claim_task(one["id"], {"worker": "other"})
        self.assertEqual(refused.exception.detail["worker"], "py")
        running = c.tasks(status="PROCESSING", queue="py-api")["tasks"]
        self.assertEqual([(t["type"], t["priority"], t["attempts"]) for t in running], [("send", 9, 1)])
        c.complete(one["id"], {**token, "result": "sent"})
        self.assertEqual(c.task(one["id"])["result"], "sent")
        self.assertEqual([e["type"] for e in c.history(one["id"])["events"]], ["SUBMITTED", "PROCESSING", "COMPLETED"])
        self.assertEqual(c.counts(queue="py-api", status=["COMPLETED", "DEAD"])["total"], {"COMPLETED": 1, "DEAD": 0})
        c.set_queue("py-api", {"maxRunning": 3})
        self.assertEqual(c.queue("py-api")["maxRunning"], 3)
        self.assertIn("py-api", [q["name"] for q in c.queues()["queues"]])
        self.assertIn("py", [w["id"] for w in c.workers()["workers"]])

    def test_worker(self):
        c, runs, waiting = self.client, [], []

        def handle(task, context):
            runs.append(task["type"])
            if task["type"] == "good":
                return {"got": task["payload"]}
            if task["type"] == "again":
                if task["attempts"] == 1:
                    raise ValueError("not yet")
                return "second"
            if task["type"] == "never":
                raise Never("hopeless")
            if task["type"] == "long":
                time.sleep(5)
                return "after heartbeats"
            waiting.append(task["type"])
            context.stopped.wait()
            raise RuntimeError("stopped")

        worker = Worker(c, "py", "py-worker", handle, lease=2, parallel=4)
        working = threading.Thread(target=worker.run)
        working.start()
        self.addCleanup(worker.stop)

        def submit(kind):
            return c.submit("py", {"type": kind, "payload": 7, "backoff": "10ms", "maxAttempts": 3})["id"]

        ids = {kind: submit(kind) for kind in ("good", "again", "never", "long", "cancelled")}
        self.until("the start of the task to be cancelled", lambda: waiting == ["cancelled"])
        c.cancel(ids["cancelled"], {"reason": "enough"})
        for kind, want in {
            "good": {"status": "COMPLETED", "result": '{"got": 7}', "attempts": 1},
            "again": {"status": "COMPLETED", "result": "second", "attempts": 2},
            "never": {"status": "FAILED", "reason": "hopeless", "attempts": 1},
            # Without heartbeats it would use up its attempts. A busy machine may lose one.
            "long": {"status": "COMPLETED", "result": "after heartbeats"},
            "cancelled": {"status": "CANCELLED", "reason": "enough"},
        }.items():
            task = self.ended(ids[kind])
            self.assertEqual({name: task.get(name) for name in want}, want, kind)
        self.assertEqual(runs.count("good"), 1)
        dry = c.requeue_all({"status": "FAILED", "queue": "py", "reason": "HOPE", "dryRun": True})
        self.assertEqual((dry["matched"], dry["changed"]), (1, 0))
        ids["stopped"] = submit("stopped")
        self.until("the start of the task to be released", lambda: waiting[-1] == "stopped")
        worker.stop()
        working.join()
        released = c.task(ids["stopped"])
        self.assertEqual((released["status"], released["attempts"]), ("PENDING", 0))


if __name__ == "__main__":
    unittest.main()
