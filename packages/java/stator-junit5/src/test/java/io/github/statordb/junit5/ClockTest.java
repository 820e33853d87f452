package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class ClockTest {
    private static final String BEGIN = "2026-01-01T00:00:00Z";

    @Test
    @StatorTest(base = Orders.class, clockAt = BEGIN)
    void advanceExpiresItems(StatorEndpoint database, StatorClock clock) {
        Instant begin = clock.freeze();
        assertFalse(clock.isRunning());
        assertEquals(begin, clock.now());
        assertTrue(Duration.between(Instant.parse(BEGIN), begin).compareTo(Duration.ofMinutes(5)) < 0, begin.toString());
        database.send("UpdateTimeToLive", Map.of("TableName", "Orders",
                "TimeToLiveSpecification", Map.of("Enabled", true, "AttributeName", "expires")));
        String expires = Long.toString(begin.plus(Duration.ofHours(24)).getEpochSecond());
        database.send("PutItem", Map.of("TableName", "Orders", "Item", Map.of("id", Map.of("S", "old"), "expires", Map.of("N", expires))));
        assertEquals(begin.plus(Duration.ofHours(23)), clock.advance(Duration.ofHours(23)));
        assertEquals(Set.of("base", "old"), Orders.ids(database));
        assertEquals(begin.plus(Duration.ofHours(25)), clock.set(begin.plus(Duration.ofHours(25))));
        assertEquals(Set.of("base"), Orders.ids(database));
        clock.run();
        assertTrue(clock.isRunning());
    }

    @Test
    @StatorTest(clock = true)
    void beginsNow(StatorClock clock) {
        assertTrue(Duration.between(Instant.now(), clock.now()).abs().compareTo(Duration.ofMinutes(5)) < 0);
    }
}
