package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;

@StatorTest(base = ForkTest.CountedOrders.class)
class ForkTest {
    private static final AtomicInteger LOADED = new AtomicInteger();

    /** Counts how often the base is loaded. */
    static final class CountedOrders implements StatorBase {
        @Override
        public void load(StatorEndpoint database) {
            LOADED.incrementAndGet();
            new Orders().load(database);
        }
    }

    /** Two tests are between their writes and reads at the same time. */
    private static final CyclicBarrier WRITTEN = new CyclicBarrier(2);

    @BeforeAll
    static void store(StatorEndpoint begin) {
        Orders.put(begin, "class");
    }

    @RepeatedTest(2)
    void parallelTestsDoNotSeeEachOther(StatorEndpoint database, RepetitionInfo repetition) throws Exception {
        String own = "test " + repetition.getCurrentRepetition();
        Orders.put(database, own);
        WRITTEN.await(60, TimeUnit.SECONDS);
        assertEquals(Set.of("base", "class", own), Orders.ids(database));
        assertEquals(1, LOADED.get());
    }

    @Test
    void allParametersAreOneDatabase(StatorEndpoint database, URI uri) {
        assertEquals(database.uri(), uri);
        assertTrue(uri.getPath().startsWith("/fork/java-"), uri.toString());
    }

    @Test
    void forksDoNotSeeEachOther(StatorEndpoint database) {
        try (StatorEndpoint one = database.fork(); StatorEndpoint two = database.fork(); StatorEndpoint ofOne = one.fork()) {
            assertNotEquals(one.uri(), two.uri());
            Orders.put(one, "one");
            Orders.put(database, "later");
            assertEquals(Set.of("base", "class", "one"), Orders.ids(one));
            assertEquals(Set.of("base", "class"), Orders.ids(two));
            assertEquals(Set.of("base", "class"), Orders.ids(ofOne));
            assertEquals(Set.of("base", "class", "later"), Orders.ids(database));
            database.send("Stator.DeleteFork", Map.of("ForkName", one.name())); // close accepts that it is gone
            StatorException error = assertThrows(StatorException.class, () -> Orders.ids(one));
            assertEquals("ResourceNotFoundException", error.code());
            assertEquals(400, error.status());
        }
    }

    @Test
    void theUriOfAForkCanBeForked(StatorEndpoint database) {
        Orders.put(database, "own");
        try (StatorEndpoint fork = StatorEndpoint.of(database.uri()).fork()) {
            assertEquals(Set.of("base", "class", "own"), Orders.ids(fork));
        }
    }

    @Test
    void rewindUndoesWrites(StatorEndpoint database) {
        database.snapshot("before");
        Orders.put(database, "undone");
        database.rewind("before");
        assertEquals(Set.of("base", "class"), Orders.ids(database));
        database.deleteSnapshot("before");
        assertThrows(StatorException.class, () -> database.rewind("before"));
    }

    @Test
    void errorsHaveTheirCode(StatorEndpoint database) {
        StatorException error = assertThrows(StatorException.class, () -> database.send("Scan", Map.of("TableName", "Nothing")));
        assertEquals("ResourceNotFoundException", error.code());
        assertTrue(error.getMessage().startsWith("Scan: ResourceNotFoundException: "), error.getMessage());
    }

    @Nested
    class Inside {
        @BeforeEach
        void store(StatorEndpoint database) {
            Orders.put(database, "nested");
        }

        @Test
        void beginsWithWhatItsClassStored(StatorEndpoint database) {
            assertEquals(Set.of("base", "class", "nested"), Orders.ids(database));
        }
    }
}
