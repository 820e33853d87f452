# Code generated from the description of the API (openapi.json); DO NOT EDIT.
"""A client of the task queue, for Python 3.8 and later, without other packages.

TaskQueue has a method for each request, and Worker executes tasks.
"""

import json
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Callable, Dict, List, Literal, Optional, TypedDict

Status = Literal["PENDING", "DELAYED", "PROCESSING", "COMPLETED", "FAILED", "DEAD", "CANCELLED"]

EventType = Literal["SUBMITTED", "PROCESSING", "COMPLETED", "FAILED", "RETRY", "RELEASED", "EXPIRED", "READY", "DEAD", "CANCELLED", "REQUEUED"]

Duration = str


class _TaskRequired(TypedDict):
    id: "str"
    queue: "str"
    type: "str"
    status: "Status"
    priority: "int"
    createdAt: "str"
    attempts: "int"
    seq: "int"


class Task(_TaskRequired, total=False):
    """The current state of a task."""

    payload: "Any"
    payloadHash: "str"
    updatedAt: "str"
    runAt: "str"
    until: "str"
    worker: "str"
    slot: "int"
    maxAttempts: "int"
    backoff: "Duration"
    reason: "str"
    result: "str"
    key: "str"
    expiresAt: "int"


class _ClaimRequired(TypedDict):
    id: "str"
    queue: "str"
    type: "str"
    status: "Status"
    priority: "int"
    createdAt: "str"
    attempts: "int"
    seq: "int"
    claim: "str"
    lease: "Duration"


class Claim(_ClaimRequired, total=False):
    """A task that a worker has claimed."""

    payload: "Any"
    payloadHash: "str"
    updatedAt: "str"
    runAt: "str"
    until: "str"
    worker: "str"
    slot: "int"
    maxAttempts: "int"
    backoff: "Duration"
    reason: "str"
    result: "str"
    key: "str"
    expiresAt: "int"


class _SubmissionRequired(TypedDict):
    type: "str"


class Submission(_SubmissionRequired, total=False):
    """A task to be submitted."""

    key: "str"
    payload: "Any"
    priority: "int"
    delay: "Duration"
    runAt: "str"
    maxAttempts: "int"
    backoff: "Duration"


class _ClaimRequestRequired(TypedDict):
    worker: "str"


class ClaimRequest(_ClaimRequestRequired, total=False):
    """A worker's request for a task."""

    lease: "Duration"
    wait: "Duration"


class _ReportRequired(TypedDict):
    worker: "str"
    claim: "str"


class Report(_ReportRequired, total=False):
    """A worker's report about a task that it has claimed."""

    result: "str"
    reason: "str"
    never: "bool"
    after: "Duration"


class _FailReplyRequired(TypedDict):
    status: "Status"


class FailReply(_FailReplyRequired, total=False):
    """The outcome of a failed attempt."""



class _CancellationRequired(TypedDict):
    pass


class Cancellation(_CancellationRequired, total=False):
    """A request to cancel a task."""

    reason: "str"


class _EventRequired(TypedDict):
    seq: "int"
    type: "EventType"
    at: "str"


class Event(_EventRequired, total=False):
    """One step in the history of a task."""

    worker: "str"
    slot: "int"
    reason: "str"
    result: "str"
    runAt: "str"
    until: "str"
    keep: "int"
    born: "Born"


class _BornRequired(TypedDict):
    queue: "str"
    type: "str"
    priority: "int"
    payloadHash: "str"
    maxAttempts: "int"
    backoff: "Duration"


class Born(_BornRequired, total=False):
    """The properties of a task that never change."""

    key: "str"


class _HistoryRequired(TypedDict):
    events: "List[Event]"


class History(_HistoryRequired, total=False):
    """The events of a task, oldest first."""



class _PageRequired(TypedDict):
    tasks: "List[Task]"


class Page(_PageRequired, total=False):
    """One page of a list of tasks."""

    next: "str"


class _BulkRequestRequired(TypedDict):
    status: "Status"


class BulkRequest(_BulkRequestRequired, total=False):
    """A request to requeue or cancel all tasks of a selection, up to 200 at a time, newest first."""

    queue: "str"
    type: "str"
    reason: "str"
    olderThan: "Duration"
    next: "str"
    dryRun: "bool"
    note: "str"


class _BulkReplyRequired(TypedDict):
    matched: "int"
    changed: "int"
    skipped: "int"
    tasks: "List[Task]"


class BulkReply(_BulkReplyRequired, total=False):
    """What a bulk request did. It is complete when there is no next."""

    next: "str"


class _CountsRequired(TypedDict):
    queues: "List[QueueCounts]"
    total: "Dict[str, int]"
    more: "List[Status]"


class Counts(_CountsRequired, total=False):
    """Numbers of tasks by status."""



class _QueueCountsRequired(TypedDict):
    queue: "str"
    tasks: "Dict[str, int]"
    more: "List[Status]"


class QueueCounts(_QueueCountsRequired, total=False):
    """Numbers of tasks of one queue by status."""



class _QueueRequired(TypedDict):
    name: "str"
    maxPending: "int"
    maxRunning: "int"
    paused: "bool"


class Queue(_QueueRequired, total=False):
    """A queue and its limits."""

    updatedAt: "str"


class _QueueViewRequired(TypedDict):
    name: "str"
    maxPending: "int"
    maxRunning: "int"
    paused: "bool"
    pending: "int"
    delayed: "int"
    running: "int"
    waiting: "int"
    more: "bool"


class QueueView(_QueueViewRequired, total=False):
    """A queue as a server sees it."""

    updatedAt: "str"


class _QueueListRequired(TypedDict):
    queues: "List[QueueView]"


class QueueList(_QueueListRequired, total=False):
    """All queues, by name."""



class _LimitsRequired(TypedDict):
    pass


class Limits(_LimitsRequired, total=False):
    """The limits of a queue. Absent members get their defaults."""

    maxPending: "int"
    maxRunning: "int"
    paused: "bool"


class _WorkerViewRequired(TypedDict):
    id: "str"
    seenAt: "str"
    tasks: "List[Task]"


class WorkerView(_WorkerViewRequired, total=False):
    """A worker and its tasks."""



class _WorkerListRequired(TypedDict):
    workers: "List[WorkerView]"


class WorkerList(_WorkerListRequired, total=False):
    """The workers that were seen lately."""



class _FaultRequired(TypedDict):
    code: "str"
    message: "str"


class Fault(_FaultRequired, total=False):
    """An error."""

    detail: "Any"


class _ErrorReplyRequired(TypedDict):
    error: "Fault"


class ErrorReply(_ErrorReplyRequired, total=False):
    """The reply to a request that failed."""



class TaskQueueError(Exception):
    """An error that the server returned."""

    def __init__(self, status: int, code: str, message: str, detail: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.detail = detail or {}


class Never(Exception):
    """An error of a task that must not be retried."""


class TaskQueue:
    """A client of the server at a URL, such as http://127.0.0.1:8070.

    patience is for how many seconds a request is retried while the server cannot be
    reached, and timeout how long one try may take.
    """

    def __init__(self, url: str, patience: float = 30, timeout: float = 90):
        self.url = url.rstrip("/")
        self.patience = patience
        self.timeout = timeout

    def queues(self) -> QueueList:
        """List all queues."""
        return self._request("GET", "/v1/queues", [])

    def queue(self, queue: str) -> QueueView:
        """Get a queue."""
        return self._request("GET", "/v1/queues/{queue}", [queue])

    def set_queue(self, queue: str, body: Limits) -> Queue:
        """Set the limits of a queue, for all servers."""
        return self._request("PUT", "/v1/queues/{queue}", [queue], body=body)

    def queue_tasks(self, queue: str, *, status: Optional[Status] = None, type: Optional[str] = None, reason: Optional[str] = None, older_than: Optional[Duration] = None, limit: Optional[int] = None, next: Optional[str] = None) -> Page:
        """List tasks of a queue."""
        return self._request("GET", "/v1/queues/{queue}/tasks", [queue], query={"status": status, "type": type, "reason": reason, "olderThan": older_than, "limit": limit, "next": next})

    def submit(self, queue: str, body: Submission) -> Task:
        """Submit a task.

        A submission that is repeated with the same key returns the same task. 409 key_reused: the
        key was used for other content. 429 queue_full: the queue has reached its limit of waiting
        tasks.
        """
        return self._request("POST", "/v1/queues/{queue}/tasks", [queue], body=body)

    def claim(self, queue: str, body: ClaimRequest) -> Optional[Claim]:
        """Claim the most urgent task of a queue."""
        return self._request("POST", "/v1/queues/{queue}/claim", [queue], body=body)

    def tasks(self, *, queue: Optional[str] = None, status: Optional[Status] = None, type: Optional[str] = None, reason: Optional[str] = None, older_than: Optional[Duration] = None, limit: Optional[int] = None, next: Optional[str] = None) -> Page:
        """List tasks of all queues or of one."""
        return self._request("GET", "/v1/tasks", [], query={"queue": queue, "status": status, "type": type, "reason": reason, "olderThan": older_than, "limit": limit, "next": next})

    def requeue_all(self, body: BulkRequest) -> BulkReply:
        """Restart all dead or failed tasks of a selection.

        The request handles up to 200 tasks. Repeat it with next until the reply has none.
        """
        return self._request("POST", "/v1/tasks/requeue", [], body=body)

    def cancel_all(self, body: BulkRequest) -> BulkReply:
        """Cancel all tasks of a selection.

        The request handles up to 200 tasks. Repeat it with next until the reply has none.
        """
        return self._request("POST", "/v1/tasks/cancel", [], body=body)

    def task(self, id: str) -> Task:
        """Get a task."""
        return self._request("GET", "/v1/tasks/{id}", [id])

    def history(self, id: str) -> History:
        """Get the events of a task."""
        return self._request("GET", "/v1/tasks/{id}/history", [id])

    def claim_task(self, id: str, body: ClaimRequest) -> Claim:
        """Claim one task.

        409 conflict: another worker has it; the error's detail has the worker.
        """
        return self._request("POST", "/v1/tasks/{id}/claim", [id], body=body)

    def heartbeat(self, id: str, body: Report) -> None:
        """Extend the lease of a claim.

        409 conflict: the task no longer belongs to the worker.
        """
        return self._request("POST", "/v1/tasks/{id}/heartbeat", [id], body=body)

    def complete(self, id: str, body: Report) -> None:
        """Report that a task is done."""
        return self._request("POST", "/v1/tasks/{id}/complete", [id], body=body)

    def fail(self, id: str, body: Report) -> Optional[FailReply]:
        """Report that an attempt failed."""
        return self._request("POST", "/v1/tasks/{id}/fail", [id], body=body)

    def release(self, id: str, body: Report) -> None:
        """Give a task back; the attempt does not count."""
        return self._request("POST", "/v1/tasks/{id}/release", [id], body=body)

    def cancel(self, id: str, body: Cancellation) -> Task:
        """Cancel a task."""
        return self._request("POST", "/v1/tasks/{id}/cancel", [id], body=body)

    def requeue(self, id: str) -> Task:
        """Restart a dead or failed task."""
        return self._request("POST", "/v1/tasks/{id}/requeue", [id])

    def counts(self, *, queue: Optional[str] = None, status: Optional[List[Status]] = None, max: Optional[int] = None) -> Counts:
        """Count tasks by status.

        The request reads the index: about 400 read units for 10,000 tasks.
        """
        return self._request("GET", "/v1/counts", [], query={"queue": queue, "status": status, "max": max})

    def workers(self) -> WorkerList:
        """List the workers that were seen lately."""
        return self._request("GET", "/v1/workers", [])

    def _request(self, method: str, path: str, values: List[str], body: Any = None, query: Optional[Dict[str, Any]] = None) -> Any:
        """Sends a request until there is a reply. The result is None for a reply without content."""
        if path == "/v1/queues/{queue}/tasks" and method == "POST" and not body.get("key"):
            # A retried request must not create the task twice.
            body = {**body, "key": str(uuid.uuid4())}
        for value in values:
            start, _, rest = path.partition("{")
            path = start + urllib.parse.quote(value, safe="") + rest.partition("}")[2]
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        if given:
            path += "?" + urllib.parse.urlencode(given, doseq=True)
        began = time.monotonic()
        wait = 0.05
        while True:
            try:
                return self._once(method, path, body, self.timeout)
            except TaskQueueError as error:
                if error.status < 500 or time.monotonic() - began + wait > self.patience:
                    raise
            except OSError:
                if time.monotonic() - began + wait > self.patience:
                    raise
            time.sleep(wait / 2 + random.random() * wait)
            wait = min(2 * wait, 2)

    def _once(self, method: str, path: str, body: Any, timeout: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()
                return json.loads(text) if answer.status != 204 else None
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            try:
                fault = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                fault = {"code": "unknown", "message": "%s answers %d; is it a task queue?" % (self.url, error.code)}
            raise TaskQueueError(error.code, fault["code"], fault["message"], fault.get("detail")) from None


class Context:
    """What a handler sees of its worker.

    stopped is set when the handler must stop: the task was cancelled, the lease could
    not be extended, or the worker stops.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.lost = False
        self._ended = threading.Event()


class Worker:
    """Claims tasks of a queue and executes them.

    id must be unique among running workers. handler(task, context) returns the result:
    text, or a value that becomes JSON. After an exception the task is retried later,
    unless the exception is a Never. lease is the number of seconds without heartbeats
    after which a task is given to another worker, and parallel the number of threads.
    """

    def __init__(self, client: TaskQueue, queue: str, id: str, handler: Callable[[Claim, Context], Any], lease: float = 30, parallel: int = 1, log: Callable[..., None] = lambda *_: None):
        self.client, self.queue, self.id, self.handler = client, queue, id, handler
        self.lease, self.parallel, self.log = lease, parallel, log
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._contexts: List[Context] = []
        self._failure: Optional[BaseException] = None

    def run(self) -> None:
        """Works until stop is called. Tasks in progress whose handlers then fail are released."""
        rows = [threading.Thread(target=self._row, daemon=True) for _ in range(self.parallel)]
        for row in rows:
            row.start()
        for row in rows:
            row.join()
        if self._failure:
            raise self._failure

    def stop(self) -> None:
        """Ends run, at the latest when the request for a task ends after two seconds."""
        self._stopping.set()
        with self._lock:
            for context in self._contexts:
                context.stopped.set()

    def _row(self) -> None:
        while not self._stopping.is_set():
            sent = time.monotonic()
            try:
                claim = self.client.claim(self.queue, {"worker": self.id, "lease": "%gs" % self.lease, "wait": "2s"})
            except TaskQueueError as error:
                if error.status == 400:
                    self._failure = error
                    self.stop()
                    return
                self.log("claiming a task failed; retrying", error)
                self._stopping.wait(1)
                continue
            except OSError as error:
                self.log("claiming a task failed; retrying", error)
                self._stopping.wait(1)
                continue
            if claim and self._stopping.is_set():
                self._report(lambda: self.client.release(claim["id"], {"worker": self.id, "claim": claim["claim"]}))
            elif claim:
                self._one(claim, sent)

    def _one(self, claim: Claim, sent: float) -> None:
        """Executes a task and reports the result."""
        token = {"worker": self.id, "claim": claim["claim"]}
        if time.monotonic() - sent > self.lease / 10:
            # The claim was requested long ago: check that it still holds.
            sent = time.monotonic()
            try:
                self.client.heartbeat(claim["id"], token)
            except (TaskQueueError, OSError) as error:
                self.log("a task was claimed, but its lease may have expired", error)
                return
            if time.monotonic() - sent > self.lease / 3:
                self.log("a task was claimed, but its lease may have expired", claim["id"])
                return
        context = Context()
        with self._lock:
            self._contexts.append(context)
            if self._stopping.is_set():
                context.stopped.set()
        keeper = threading.Thread(target=self._keep, args=(claim, token, sent, context), daemon=True)
        keeper.start()
        try:
            result = self.handler(claim, context)
            text = result if isinstance(result, str) else "" if result is None else json.dumps(result)
            report = lambda: self.client.complete(claim["id"], {**token, "result": text})
        except Exception as error:
            reason, never = (str(error) or type(error).__name__)[:1000], isinstance(error, Never)
            report = lambda: self.client.fail(claim["id"], {**token, "reason": reason, "never": never})
            if self._stopping.is_set():
                report = lambda: self.client.release(claim["id"], token)
        finally:
            context._ended.set()
            keeper.join()
            with self._lock:
                self._contexts.remove(context)
        if context.lost:
            self.log("abandoned a task that no longer belongs to this worker", claim["id"])
            return
        self._report(report)

    def _report(self, report: Callable[[], Any]) -> None:
        try:
            report()
        except (TaskQueueError, OSError) as error:
            self.log("the result of a task could not be reported; the task is retried when its lease expires", error)

    def _beat(self, claim: Claim, token: Dict[str, str]) -> None:
        self.client._once("POST", "/v1/tasks/%s/heartbeat" % claim["id"], token, self.lease / 3)

    def _keep(self, claim: Claim, token: Dict[str, str], sent: float, context: Context) -> None:
        """Sends heartbeats while a task runs.

        If none succeeds for nine tenths of the lease, the task is abandoned before the
        server gives it to another worker.
        """
        over = sent + self.lease * 0.9
        while not context._ended.wait(max(0, min(self.lease / 3, over - time.monotonic()))):
            now = time.monotonic()
            if now < over:
                try:
                    self._beat(claim, token)
                    over = now + self.lease * 0.9
                    continue
                except TaskQueueError as error:
                    if error.status >= 500:
                        continue
                except OSError:
                    continue
            if not context._ended.is_set():
                context.lost = True
                context.stopped.set()
            return
