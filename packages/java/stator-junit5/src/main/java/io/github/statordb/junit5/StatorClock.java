package io.github.statordb.junit5;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * The clock of a server, which time to live, streams, tokens and point-in-time windows follow. Every server has one; it
 * can be changed if the server was started with {@code --test-clock}: see {@link StatorTest#clock()}.
 */
public final class StatorClock {
    private final StatorEndpoint server;

    StatorClock(StatorEndpoint server) {
        this.server = server;
    }

    /**
     * Returns the time of the server.
     *
     * @return the time
     */
    public Instant now() {
        return time(server.send("Stator.GetClock", Map.of()));
    }

    /**
     * Reports whether the time passes.
     *
     * @return false if the clock stands still
     */
    public boolean isRunning() {
        return !"frozen".equals(server.send("Stator.GetClock", Map.of()).get("Mode"));
    }

    /**
     * Moves the clock forward. When it returns, all that became due on the way has happened: expired items are deleted
     * and are records of streams, and tables are scaled and backed up.
     *
     * @param by how far, at most 366 days
     * @return the time afterwards
     */
    public Instant advance(Duration by) {
        BigDecimal seconds = BigDecimal.valueOf(by.getSeconds()).add(BigDecimal.valueOf(by.getNano(), 9));
        return time(server.send("Stator.AdvanceClock", Map.of("Seconds", seconds)));
    }

    /**
     * Moves the clock forward to a time, as {@link #advance} does.
     *
     * @param to a time that is not before the present one
     * @return the time afterwards
     */
    public Instant set(Instant to) {
        BigDecimal seconds = BigDecimal.valueOf(to.getEpochSecond()).add(BigDecimal.valueOf(to.getNano(), 9));
        return time(server.send("Stator.SetClock", Map.of("Time", seconds)));
    }

    /**
     * Makes the clock stand still.
     *
     * @return the time
     */
    public Instant freeze() {
        return time(server.send("Stator.FreezeClock", Map.of()));
    }

    /**
     * Lets the time pass as that of the system does.
     *
     * @return the time
     */
    public Instant run() {
        return time(server.send("Stator.RunClock", Map.of()));
    }

    private static Instant time(Map<String, Object> reply) {
        BigDecimal seconds = new BigDecimal(Json.string(reply.get("Time")));
        return Instant.ofEpochSecond(0, seconds.movePointRight(9).longValue());
    }
}
