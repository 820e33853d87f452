package io.github.statordb.junit5;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A server that this process has started. It stops when it is closed, and when this process ends, also if that is killed.
 *
 * <pre>{@code
 * try (StatorServer server = StatorServer.start()) {
 *     DynamoDbClient client = server.endpoint().client(DynamoDbClient.class);
 * }
 * }</pre>
 */
public final class StatorServer implements AutoCloseable {
    private static final int START_SECONDS = 30;
    private static final int STOP_SECONDS = 15;
    private static final int LOG_CHARS = 64 * 1024;
    private static final String LISTENS = "stator listens on ";

    private final Process process;
    private final Thread reader;
    private final StringBuilder log = new StringBuilder();
    private final CompletableFuture<URI> listening = new CompletableFuture<>();
    private final Map<Object, StatorEndpoint> bases = new ConcurrentHashMap<>();
    private StatorEndpoint endpoint;

    private StatorServer(Process process) {
        this.process = process;
        reader = new Thread(this::read, "stator log");
        reader.setDaemon(true);
        reader.start();
    }

    /**
     * Starts a server in memory on a free port of this machine, and waits until it is ready.
     *
     * @param args further arguments of {@code stator serve}
     * @return the server
     * @throws IllegalStateException if there is no stator, or it does not start; the message has its log
     */
    public static StatorServer start(String... args) {
        List<String> command = new ArrayList<>(List.of(StatorBinary.find().toString(),
                "serve", "--in-memory", "--addr", "127.0.0.1:0", "--stop-with-stdin", "--fork-idle", "24h"));
        command.addAll(List.of(args));
        StatorServer server;
        try {
            server = new StatorServer(new ProcessBuilder(command)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD).start()); // its standard input is a pipe from this process
        } catch (IOException e) {
            throw new IllegalStateException("cannot start stator: " + e.getMessage() + "\ncommand: " + String.join(" ", command), e);
        }
        try {
            server.endpoint = StatorEndpoint.of(server.listening.get(START_SECONDS, TimeUnit.SECONDS));
            HttpApi.get(server.endpoint.uri(), "/readyz");
            return server;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw server.failed("the start was interrupted", command, e);
        } catch (TimeoutException e) {
            throw server.failed("it was not ready within " + START_SECONDS + " seconds", command, e);
        } catch (ExecutionException e) {
            throw server.failed(e.getCause().getMessage(), command, e.getCause());
        } catch (RuntimeException e) {
            throw server.failed(e.getMessage(), command, e);
        }
    }

    private IllegalStateException failed(String why, List<String> command, Throwable cause) {
        stop();
        return new IllegalStateException(
                "cannot start stator: " + why + "\n" + log().stripTrailing() + "\ncommand: " + String.join(" ", command), cause);
    }

    /** Reads the log to its end, or the server would wait once the pipe is full. */
    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            URI at = null;
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                synchronized (log) {
                    log.append(line).append('\n');
                    if (log.length() > LOG_CHARS) {
                        log.delete(0, log.length() - LOG_CHARS / 2);
                    }
                }
                if (line.startsWith(LISTENS)) {
                    at = URI.create(line.substring(LISTENS.length()).strip());
                } else if (at != null && line.startsWith("data is in ")) {
                    listening.complete(at);
                }
            }
            listening.completeExceptionally(new IOException("it ended with exit code " + process.waitFor()));
        } catch (IOException e) {
            listening.completeExceptionally(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Returns the database of the server.
     *
     * @return the database
     */
    public StatorEndpoint endpoint() {
        return endpoint;
    }

    /**
     * Returns the end of the log.
     *
     * @return what the server has printed, at most 64 KB
     */
    public String log() {
        synchronized (log) {
            return log.toString();
        }
    }

    /**
     * Returns the id of the process.
     *
     * @return the id
     */
    public long pid() {
        return process.pid();
    }

    /** Returns a fork that a base has loaded, the same one for all tests. It ends with the server. */
    StatorEndpoint base(Object key, StatorBase base) {
        return bases.computeIfAbsent(key, k -> {
            StatorEndpoint fork = endpoint.fork();
            load(base, fork);
            return fork;
        });
    }

    static void load(StatorBase base, StatorEndpoint database) {
        try {
            base.load(database);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException("load what the tests begin with: " + e, e);
        }
    }

    /** Stops the server. */
    @Override
    public void close() {
        endpoint.close();
        stop();
    }

    private void stop() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
            reader.join();
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
