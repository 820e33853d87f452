package io.github.statordb.junit5;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The faults that a server injects into requests. A server that was not started for them refuses to set any: see
 * {@link StatorTest#allowFaults()}. Requests to forks get none.
 */
public final class StatorFaults {
    /** The environment variable with the seed of tests whose plan has none. */
    public static final String SEED = "STATOR_FAULT_SEED";

    private static final int PAGE = 1000;

    private final StatorEndpoint server;

    StatorFaults(StatorEndpoint server) {
        this.server = server;
    }

    /**
     * Injects faults from now on, in place of others. The seed is that of the environment variable
     * {@code STATOR_FAULT_SEED}, or a random one.
     *
     * @param rules are tried in order
     */
    public void set(Fault... rules) {
        set(chosenSeed(), rules);
    }

    /**
     * Injects faults from now on, in place of others.
     *
     * @param seed chooses the requests that get a fault; it is not negative
     * @param rules are tried in order
     */
    public void set(long seed, Fault... rules) {
        List<Object> members = new ArrayList<>();
        for (Fault rule : rules) {
            members.add(rule.members());
        }
        send(Json.write(Map.of("faults", members)), seed);
    }

    /**
     * Injects the faults of a plan from now on, in place of others. A plan without a seed has that of the environment
     * variable {@code STATOR_FAULT_SEED}, or a random one.
     *
     * @param plan in the form of docs/faults.md, YAML or JSON
     */
    public void setPlan(String plan) {
        if (send(plan, -1) == 0) {
            send(plan, chosenSeed());
        }
    }

    /**
     * Injects the faults of a file from now on, in place of others.
     *
     * @param file a plan, see {@link #setPlan}
     */
    public void load(Path file) {
        try {
            setPlan(Files.readString(file));
        } catch (IOException e) {
            throw new UncheckedIOException("read the faults of " + file + ": " + e, e);
        }
    }

    /** Injects no faults any more. */
    public void off() {
        send("", -1);
    }

    /** Returns the seed; 0 if the plan has none. */
    private long send(String plan, long seed) {
        Map<String, ?> members = seed < 0 ? Map.of("Plan", plan) : Map.of("Plan", plan, "Seed", seed);
        return Json.integer(server.send("Stator.SetFaults", members).get("Seed"));
    }

    private static long chosenSeed() {
        String text = System.getenv(SEED);
        if (text == null || text.isEmpty()) {
            return ThreadLocalRandom.current().nextLong(Long.MAX_VALUE);
        }
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(SEED + " is \"" + text + "\", but must be a number", e);
        }
    }

    /**
     * Returns the seed of the faults.
     *
     * @return the seed
     */
    public long seed() {
        return Json.integer(server.send("Stator.GetFaults", Map.of()).get("Seed"));
    }

    /**
     * Returns the faults that were injected since they were set, in order. Of more than 10,000 the newest are there.
     *
     * @return the faults
     */
    public List<InjectedFault> timeline() {
        List<InjectedFault> found = new ArrayList<>();
        for (long after = 0; ; ) {
            Map<String, Object> reply = server.send("Stator.ListInjectedFaults", Map.of("After", after, "Limit", PAGE));
            List<?> page = Json.list(reply.get("Faults"));
            for (Object fault : page) {
                found.add(new InjectedFault(Json.object(fault)));
                after = Json.integer(Json.object(fault).get("Number"));
            }
            if (page.size() < PAGE) {
                return found;
            }
        }
    }

    /** Returns the timeline, with the seed. */
    @Override
    public String toString() {
        long seed = seed();
        StringBuilder text = new StringBuilder(
                String.format("injected faults, with the seed %d (repeat with %s=%d):", seed, SEED, seed));
        for (InjectedFault fault : timeline()) {
            text.append("\n    ").append(fault);
        }
        return text.toString();
    }
}
