package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs tests that fail, and compares how. */
class FailuresTest {
    /** Runs the tests of a class, and returns their errors by the names of the methods; an empty string if one succeeds. */
    private static Map<String, String> run(Class<?> tests) {
        Map<String, String> results = new TreeMap<>();
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selectClass(tests))
                .configurationParameter("junit.jupiter.execution.parallel.enabled", "false").build();
        LauncherFactory.create().execute(request, new TestExecutionListener() {
            @Override
            public void executionFinished(TestIdentifier test, TestExecutionResult result) {
                StringWriter text = new StringWriter();
                result.getThrowable().ifPresent(e -> e.printStackTrace(new PrintWriter(text, true)));
                if (test.isTest() || text.getBuffer().length() > 0) {
                    results.put(test.getDisplayName().replaceAll("\\(.*", ""), text.toString());
                }
            }
        });
        return results;
    }

    private static void contains(String text, String... all) {
        for (String want : all) {
            assertTrue(text.contains(want), () -> "no \"" + want + "\" in:\n" + text);
        }
    }

    @StatorTest(base = Orders.class)
    static class Budgets {
        @Test
        void kept(StatorEndpoint database) {
            Orders.put(database, "not counted");
            database.budget(3);
            database.budget(2, 1);
            database.noScans();
            Orders.put(database, "1");
            database.send("GetItem", Map.of("TableName", "Orders", "ConsistentRead", true, "Key", Map.of("id", Map.of("S", "1"))));
        }

        @Test
        void exceeded(StatorEndpoint database) {
            database.budget(1.5);
            Orders.put(database, "1");
            Orders.put(database, "2");
        }

        @Test
        void writesExceeded(StatorEndpoint database) {
            database.budget(100, 0.5);
            Orders.put(database, "1");
        }

        @Test
        void scanned(StatorEndpoint database) {
            database.noScans();
            database.budget(0);
            Orders.ids(database);
        }

        @Test
        void ofAFork(StatorEndpoint database) {
            try (StatorEndpoint fork = database.fork()) {
                StatorUsage.Meter meter = fork.meter();
                Orders.put(fork, "1");
                assertEquals("0.0 1.0 PutItem Orders 1", meter.used().read() + " " + meter.used().write() + " "
                        + meter.used().requests().get(0).operation() + " " + meter.used().requests().get(0).table() + " "
                        + meter.used().requests().get(0).count());
                fork.send("DeleteTable", Map.of("TableName", "Orders"));
                assertEquals(1, meter.used().units()); // the units of a deleted table count, too
                fork.budget(1);
            }
        }
    }

    @Test
    void budgets() {
        Map<String, String> results = run(Budgets.class);
        assertEquals("", results.get("kept"));
        contains(results.get("exceeded"), "AssertionError: the requests consumed 2.0 units (read 0.0, write 2.0), and the budget is 1.5:",
                "2.0 units  PutItem of Orders", "(2 times)");
        contains(results.get("writesExceeded"), "consumed 0.0 units for reads and 1.0 for writes, and the budget is 100.0 and 0.5");
        contains(results.get("scanned"), "there are scans", "Scan of Orders", "(once)", "Suppressed: java.lang.AssertionError: the requests consumed");
        contains(results.get("ofAFork"), "IllegalStateException: nothing verifies a budget of this database");
    }

    static class Faulty {
        @Test
        @StatorTest(base = Orders.class, faults = "throttled.yaml")
        void throttled(StatorEndpoint database) {
            Orders.put(database, "1");
        }

        @Test
        @StatorTest(faults = "nothing.yaml")
        void withoutFile(StatorEndpoint database) {}

        @Test
        @StatorTest
        void withoutFaults(StatorFaults faults) {}

        @Test
        @ExtendWith(StatorExtension.class)
        void withoutClock(StatorClock clock) {}
    }

    @Test
    void faults() {
        Map<String, String> results = run(Faulty.class);
        contains(results.get("throttled"), "PutItem: ThrottlingException", "injected faults, with the seed 7 (repeat with STATOR_FAULT_SEED=7):",
                "throttle  PutItem Orders  id=1");
        contains(results.get("withoutFile"), "there are no faults nothing.yaml: tried the class path near io.github.statordb.junit5.FailuresTest$Faulty");
        contains(results.get("withoutFaults"), "set allowFaults = true or faults in @StatorTest");
        contains(results.get("withoutClock"), "set clock = true in @StatorTest");
    }

    @StatorTest
    static class InConstructor {
        InConstructor(StatorEndpoint database) {}

        @Test
        void test() {}
    }

    @StatorTest(clock = true)
    static class BeforeAllOfServers {
        @BeforeAll
        static void store(StatorEndpoint database) {}

        @Test
        void test() {}
    }

    static final class Broken implements StatorBase {
        @Override
        public void load(StatorEndpoint database) throws Exception {
            throw new Exception("the fixture is broken");
        }
    }

    @StatorTest(base = Broken.class)
    static class OfBrokenBase {
        @Test
        void test(StatorEndpoint database) {}
    }

    @StatorTest(args = "--no-such-flag")
    static class OfWrongArguments {
        @Test
        void test(StatorEndpoint database) {}
    }

    @Test
    void settingsThatCannotBe() {
        contains(run(InConstructor.class).get("test"), "a constructor has no database of a test");
        contains(run(BeforeAllOfServers.class).values().toString(), "each test has a server of its own", "@BeforeEach");
        contains(run(OfBrokenBase.class).get("test"), "the fixture is broken");
        String wrong = run(OfWrongArguments.class).get("test");
        assertFalse(wrong.contains("Suppressed: "), wrong);
        contains(wrong, "cannot start stator: it ended with exit code 2", "unknown flag: --no-such-flag",
                "command: ");
    }
}
