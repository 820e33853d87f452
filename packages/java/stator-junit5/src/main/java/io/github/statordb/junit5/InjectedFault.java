package io.github.statordb.junit5;

import java.time.Duration;
import java.util.Map;

/** A fault that was injected into a request. */
public final class InjectedFault {
    private final Map<String, Object> members;

    InjectedFault(Map<String, Object> members) {
        this.members = members;
    }

    /**
     * Returns when it was injected.
     *
     * @return the time since the faults were set
     */
    public Duration at() {
        return Duration.ofNanos((long) (Json.number(members.get("AtMilliseconds")) * 1e6));
    }

    /**
     * Returns the kind of the fault.
     *
     * @return such as {@code throttle}
     */
    public String fault() {
        return Json.string(members.get("Fault"));
    }

    /**
     * Returns the operation of the request.
     *
     * @return such as {@code PutItem}
     */
    public String operation() {
        return Json.string(members.get("Operation"));
    }

    /**
     * Returns the tables of the request.
     *
     * @return their names, separated by commas
     */
    public String tables() {
        StringBuilder names = new StringBuilder();
        for (Object name : Json.list(members.get("Tables"))) {
            names.append(names.length() == 0 ? "" : ",").append(name);
        }
        return names.toString();
    }

    /**
     * Returns the key that the request names.
     *
     * @return such as {@code id=1}, or an empty string
     */
    public String key() {
        return Json.string(members.get("Key"));
    }

    /**
     * Returns what the fault did.
     *
     * @return a text for people
     */
    public String detail() {
        return Json.string(members.get("Detail"));
    }

    /** Returns a line of the timeline. */
    @Override
    public String toString() {
        return String.format("%.3fs  %s  %s %s  %s  %s", at().toNanos() / 1e9, fault(), operation(), tables(), key(), detail()).stripTrailing();
    }
}
