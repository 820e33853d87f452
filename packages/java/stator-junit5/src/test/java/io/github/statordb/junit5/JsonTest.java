package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void whatIsWrittenIsRead() {
        for (Object value : Arrays.asList("", "a\"\\\n\u0000\u00e9\ud83d\ude00", new BigDecimal("-1.5E+3"), true, null, List.of(), Map.of(),
                List.of(BigDecimal.ONE, List.of("x")), Map.of("a", Map.of("b", List.of(false))))) {
            assertEquals(value, Json.parse(Json.write(value)));
        }
        assertEquals(Map.of("a", "/\u00e9\t\b\f\r"), Json.parse(" { \"a\" : \"\\/\\u00e9\\t\\b\\f\\r\" } "));
    }

    @Test
    void errorsAreRejected() {
        for (String text : List.of("", "{", "[1,]", "{\"a\"}", "\"a", "\"\\u12", "\"\\x\"", "nul", "1 2", "{1:2}", "-", "[".repeat(300))) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(text), text);
        }
        assertThrows(IllegalArgumentException.class, () -> Json.write(new Object()));
    }
}
