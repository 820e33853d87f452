package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class FaultsTest {
    private static String codeOf(StatorEndpoint database, String id) {
        try {
            Orders.put(database, id);
            return "";
        } catch (StatorException e) {
            return e.code();
        }
    }

    @Test
    @StatorTest(base = Orders.class, faults = "throttled.yaml")
    void theFileThrottlesTheFirstPut(StatorEndpoint database, StatorFaults faults) {
        assertEquals(List.of(), faults.timeline()); // those of the base are not counted
        assertEquals("ThrottlingException", codeOf(database, "1"));
        assertEquals("", codeOf(database, "1"));
        assertEquals(7, faults.seed());
        assertEquals(1, faults.timeline().size());
        InjectedFault fault = faults.timeline().get(0);
        assertEquals("throttle PutItem Orders id=1", fault.fault() + " " + fault.operation() + " " + fault.tables() + " " + fault.key());
        assertTrue(fault.toString().contains("throttle  PutItem Orders  id=1"), fault.toString());
    }

    @Test
    @StatorTest(base = Orders.class, allowFaults = true)
    void faultsInCode(StatorEndpoint database, StatorFaults faults) {
        faults.set(Fault.throttle().table("Orders").operations("PutItem").key("id", "hot"));
        assertEquals(List.of("ThrottlingException", ""), List.of(codeOf(database, "hot"), codeOf(database, "cold")));
        faults.set(3, Fault.lostAnswer().operations("PutItem").count(1).share(1));
        assertEquals(3, faults.seed());
        assertEquals("InternalServerError", codeOf(database, "lost"));
        assertEquals(Set.of("base", "cold", "lost"), Orders.ids(database)); // the write happened
        faults.setPlan("faults: [{fault: conflict, operations: [PutItem]}]");
        assertTrue(faults.seed() > 0);
        assertEquals("TransactionConflictException", codeOf(database, "again"));
        faults.off();
        assertEquals("", codeOf(database, "hot"));
        StatorException error = assertThrows(StatorException.class, () -> faults.setPlan("faults: [{fault: sabotage}]"));
        assertTrue(error.getMessage().contains("sabotage"), error.getMessage());
    }

    @Test
    @StatorTest(base = Orders.class)
    void otherDatabasesHaveNone(StatorEndpoint database) {
        assertThrows(StatorException.class, () -> database.faults().set(Fault.throttle()));
        assertEquals("", codeOf(database, "1"));
    }

    @Test
    void theSameSeedChoosesTheSameRequests() {
        try (StatorServer server = StatorServer.start("--allow-faults")) {
            StatorEndpoint database = server.endpoint();
            database.send("CreateTable", Orders.TABLE);
            String[] seen = {"", "", ""};
            long[] seeds = {1, 1, 2};
            for (int run = 0; run < seeds.length; run++) {
                database.faults().set(seeds[run], Fault.throttle().share(0.5));
                for (int i = 0; i < 30; i++) {
                    seen[run] += codeOf(database, "item " + i).isEmpty() ? "." : "x";
                }
            }
            assertEquals(seen[0], seen[1]);
            assertTrue(!seen[0].equals(seen[2]) && seen[0].contains("x") && seen[0].contains("."), seen[0] + " " + seen[2]);
            assertEquals("throttle", Json.object(Json.list(Json.parseObject(Json.write(
                    Map.of("faults", List.of(Fault.throttle().members())))).get("faults")).get(0)).get("fault"));
        }
    }
}
