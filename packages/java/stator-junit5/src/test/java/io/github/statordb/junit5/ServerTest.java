package io.github.statordb.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ServerTest {
    @Test
    void startsWithoutJUnit() {
        long pid;
        try (StatorServer server = StatorServer.start()) {
            pid = server.pid();
            assertEquals(Map.of("TableNames", List.of()), server.endpoint().send("ListTables", "{}"));
            assertTrue(server.log().contains("stator listens on " + server.endpoint().uri()), server.log());
            assertTrue(ProcessHandle.of(pid).isPresent());
        }
        assertFalse(ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false));
    }

    /** A program that starts a server, and waits. */
    static final class Starter {
        public static void main(String[] args) throws Exception {
            StatorServer server = StatorServer.start();
            System.out.println(server.pid());
            if (args[0].equals("wait")) {
                Thread.sleep(Long.MAX_VALUE);
            }
        }
    }

    private static void endsWithItsJVM(String how) throws Exception {
        Process jvm = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                Starter.class.getName(), how)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader out = new BufferedReader(new InputStreamReader(jvm.getInputStream(), StandardCharsets.UTF_8))) {
            ProcessHandle server = ProcessHandle.of(Long.parseLong(out.readLine())).orElseThrow();
            if (how.equals("wait")) {
                assertTrue(server.isAlive());
                jvm.destroyForcibly();
            }
            server.onExit().get(60, TimeUnit.SECONDS);
        } finally {
            jvm.destroyForcibly();
        }
    }

    @Test
    void endsWithAKilledJVM() throws Exception {
        endsWithItsJVM("wait");
    }

    @Test
    void endsWithItsJVM() throws Exception {
        endsWithItsJVM("return");
    }
}
