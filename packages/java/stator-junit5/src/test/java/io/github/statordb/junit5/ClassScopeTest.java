package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Set;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
@Execution(ExecutionMode.SAME_THREAD)
class ClassScopeTest {
    @RegisterExtension
    static final StatorExtension STATOR = StatorExtension.builder()
            .base(database -> database.send("CreateTable", Orders.TABLE))
            .scope(StatorScope.CLASS)
            .build();

    @Test
    @Order(1)
    void writes(StatorEndpoint database) {
        Orders.put(database, "first");
    }

    @Test
    @Order(2)
    void readsWhatTheFirstWrote(StatorEndpoint database) {
        assertEquals(Set.of("first"), Orders.ids(database));
    }
}
