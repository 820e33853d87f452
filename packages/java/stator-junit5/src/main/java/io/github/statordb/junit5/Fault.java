package io.github.statordb.junit5;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A rule that injects one kind of fault into the requests that match all of its members.
 *
 * <pre>{@code
 * Fault.throttle().table("Orders").operations("PutItem").share(0.1)
 * }</pre>
 *
 * <p>docs/faults.md describes the kinds and members. A Fault is immutable: each method returns another one.
 */
public final class Fault {
    private final Map<String, Object> members;

    private Fault(Map<String, Object> members) {
        this.members = members;
    }

    /**
     * Returns a fault of any kind, by its name.
     *
     * @param kind the name in docs/faults.md, such as {@code unprocessed}
     * @return the fault
     */
    public static Fault of(String kind) {
        return new Fault(Map.of()).with("fault", kind);
    }

    /**
     * Returns a fault that rejects requests as throttled.
     *
     * @return the fault
     */
    public static Fault throttle() {
        return of("throttle");
    }

    /**
     * Returns a fault that answers requests later.
     *
     * @param delay how much later
     * @return the fault
     */
    public static Fault latency(Duration delay) {
        return of("latency").with("delay", millis(delay));
    }

    /**
     * Returns a fault that fails requests with {@code InternalServerError} before anything is done.
     *
     * @return the fault
     */
    public static Fault internalError() {
        return of("internal-error");
    }

    /**
     * Returns a fault that fails requests with {@code InternalServerError} after they were executed.
     *
     * @return the fault
     */
    public static Fault lostAnswer() {
        return of("lost-answer");
    }

    /**
     * Returns a fault that rejects writes because of a transaction in progress.
     *
     * @return the fault
     */
    public static Fault conflict() {
        return of("conflict");
    }

    /**
     * Returns a fault that leaves some items of a batch unprocessed.
     *
     * @return the fault
     */
    public static Fault unprocessed() {
        return of("unprocessed");
    }

    /**
     * Returns a fault with which reads without ConsistentRead return what was in the table a while ago.
     *
     * @param lag how long ago
     * @return the fault
     */
    public static Fault staleRead(Duration lag) {
        return of("stale-read").with("lag", millis(lag));
    }

    /**
     * Returns a fault with which reads of global indexes return what was in the index a while ago.
     *
     * @param lag how long ago
     * @return the fault
     */
    public static Fault indexLag(Duration lag) {
        return of("index-lag").with("lag", millis(lag));
    }

    /**
     * Limits the fault to a table.
     *
     * @param name its name; {@code *} stands for any text
     * @return the fault
     */
    public Fault table(String name) {
        return with("table", name);
    }

    /**
     * Limits the fault to an index.
     *
     * @param name its name; {@code *} stands for any text
     * @return the fault
     */
    public Fault index(String name) {
        return with("index", name);
    }

    /**
     * Limits the fault to operations.
     *
     * @param names such as {@code PutItem}
     * @return the fault
     */
    public Fault operations(String... names) {
        return with("operations", List.of(names));
    }

    /**
     * Limits the fault to requests that name an item with an attribute in its key.
     *
     * @param attribute the name of the attribute
     * @param value its value; numbers and binary values as text of DynamoDB's JSON
     * @return the fault
     */
    public Fault key(String attribute, String value) {
        Map<String, Object> key = new LinkedHashMap<>(Json.object(members.get("key")));
        key.put(attribute, value);
        return with("key", key);
    }

    /**
     * Limits the fault to a share of the requests, which the seed chooses.
     *
     * @param share from 0 to 1
     * @return the fault
     */
    public Fault share(double share) {
        return with("share", share);
    }

    /**
     * Limits the fault to the first requests.
     *
     * @param count how many
     * @return the fault
     */
    public Fault count(int count) {
        return with("count", count);
    }

    /**
     * Limits the fault to a time since the faults were set.
     *
     * @param from when it begins
     * @param until when it ends
     * @return the fault
     */
    public Fault between(Duration from, Duration until) {
        return with("from", millis(from)).with("until", millis(until));
    }

    /**
     * Chooses one of the forms of the fault.
     *
     * @param form such as {@code partition} of a throttle, or {@code connection-closed} of a lost answer
     * @return the fault
     */
    public Fault as(String form) {
        return with("as", form);
    }

    private Fault with(String name, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>(members);
        changed.put(name, value);
        return new Fault(changed);
    }

    private static String millis(Duration d) {
        return d.toMillis() + "ms";
    }

    Map<String, Object> members() {
        return members;
    }

    /** Returns the rule in JSON. */
    @Override
    public String toString() {
        return Json.write(members);
    }
}
