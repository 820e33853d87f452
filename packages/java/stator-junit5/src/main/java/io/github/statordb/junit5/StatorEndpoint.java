package io.github.statordb.junit5;

import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;

/**
 * A database at a URI: a server, or a fork of one. A parameter of this type is the database of the test.
 *
 * <pre>{@code
 * @Test
 * void order(StatorEndpoint database) {
 *     database.send("PutItem", Map.of("TableName", "Orders", "Item", Map.of("id", Map.of("S", "1"))));
 * }
 * }</pre>
 */
public final class StatorEndpoint implements AutoCloseable {
    static final String REGION = "us-east-1";
    static final String ACCESS_KEY = "stator";
    static final String SECRET_KEY = "stator";

    private final URI uri;
    private final StatorEndpoint base;
    private final String name;
    private final Map<Class<?>, Object> clients = new LinkedHashMap<>();
    private final List<Runnable> checks = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean checked;

    private StatorEndpoint(URI uri, StatorEndpoint base, String name) {
        this.uri = uri;
        this.base = base;
        this.name = name;
    }

    /**
     * Returns the database at a URI, such as that of a server in a container. The server must not verify signatures.
     *
     * @param uri such as {@code http://127.0.0.1:8000}
     * @return the database
     */
    public static StatorEndpoint of(URI uri) {
        return new StatorEndpoint(uri, null, "");
    }

    /**
     * Returns the URI, for the {@code endpointOverride} of an SDK.
     *
     * @return the URI, which has the fork in its path
     */
    public URI uri() {
        return uri;
    }

    /**
     * Returns the name of the fork.
     *
     * @return its name; an empty string if it is no fork
     */
    public String name() {
        return name;
    }

    /**
     * Sends a request of the API, such as {@code send("ListTables", Map.of())}.
     *
     * @param operation of DynamoDB, or with a prefix such as {@code Stator.ListForks}
     * @param members of the request: maps, lists, strings, numbers and booleans, in the form of DynamoDB's JSON
     * @return the members of the reply; its numbers are {@link java.math.BigDecimal}
     * @throws StatorException if the reply is an error
     */
    public Map<String, Object> send(String operation, Map<String, ?> members) {
        return send(operation, Json.write(members));
    }

    /**
     * Sends a request of the API in JSON.
     *
     * @param operation of DynamoDB, or with a prefix such as {@code Stator.ListForks}
     * @param json the request
     * @return the members of the reply
     * @throws StatorException if the reply is an error
     */
    public Map<String, Object> send(String operation, String json) {
        return HttpApi.send(uri, operation, json);
    }

    /**
     * Makes a copy-on-write database of this one, in milliseconds whatever its size. Closing it drops it.
     *
     * @return the fork
     */
    public StatorEndpoint fork() {
        return fork("java-" + UUID.randomUUID());
    }

    /**
     * Makes a copy-on-write database of this one.
     *
     * @param forkName letters, digits and hyphens
     * @return the fork
     */
    public StatorEndpoint fork(String forkName) {
        send("Stator.CreateFork", Map.of("ForkName", forkName));
        return new StatorEndpoint(URI.create(root() + "/fork/" + forkName), this, forkName);
    }

    /** Returns the URI of the server. The path of a fork of a fork names that one only. */
    private String root() {
        return HttpApi.base(uri).replaceFirst("/fork/[^/]+$", "");
    }

    /**
     * Makes a snapshot, to which {@link #rewind} goes back.
     *
     * @param snapshotName letters, digits and hyphens
     */
    public void snapshot(String snapshotName) {
        send("Stator.CreateSnapshot", Map.of("SnapshotName", snapshotName));
    }

    /**
     * Gives the database the state of a snapshot, which is kept.
     *
     * @param snapshotName of {@link #snapshot}
     */
    public void rewind(String snapshotName) {
        send("Stator.Rewind", Map.of("SnapshotName", snapshotName));
    }

    /**
     * Deletes a snapshot.
     *
     * @param snapshotName of {@link #snapshot}
     */
    public void deleteSnapshot(String snapshotName) {
        send("Stator.DeleteSnapshot", Map.of("SnapshotName", snapshotName));
    }

    /**
     * Returns the clock.
     *
     * @return the clock of the server
     */
    public StatorClock clock() {
        return new StatorClock(this);
    }

    /**
     * Returns the faults.
     *
     * @return the faults of the server
     */
    public StatorFaults faults() {
        return new StatorFaults(this);
    }

    /**
     * Returns a meter of what requests do from now on.
     *
     * @return the meter
     */
    public StatorUsage.Meter meter() {
        return new StatorUsage.Meter(this);
    }

    /**
     * Makes the test fail if its requests from now on consume more units, read and write together.
     *
     * @param units the most that it may consume
     */
    public void budget(double units) {
        check(used -> used.units() > units
                ? String.format(Locale.ROOT, "the requests consumed %.1f units (read %.1f, write %.1f), and the budget is %.1f:%s",
                        used.units(), used.read(), used.write(), units, used)
                : "");
    }

    /**
     * Makes the test fail if its requests from now on consume more units, reads and writes apart.
     *
     * @param read the most that reads may consume
     * @param write the most that writes may consume
     */
    public void budget(double read, double write) {
        check(used -> used.read() > read || used.write() > write
                ? String.format(Locale.ROOT, "the requests consumed %.1f units for reads and %.1f for writes, and the budget is %.1f and %.1f:%s",
                        used.read(), used.write(), read, write, used)
                : "");
    }

    /** Makes the test fail if there is a scan from now on, also one by PartiQL. */
    public void noScans() {
        check(used -> {
            StringBuilder scans = new StringBuilder();
            for (StatorUsage.Requests r : used.requests()) {
                if (r.operation().equals("Scan")) {
                    scans.append("\n    ").append(r);
                }
            }
            return scans.length() == 0 ? "" : "there are scans, which read whole tables or indexes; a query needs a key or an index"
                    + " that begins with what is searched for (stator model check proposes one):" + scans;
        });
    }

    private interface Check {
        /** Returns why the check fails; an empty string if it does not. */
        String fault(StatorUsage used);
    }

    private void check(Check check) {
        if (!checked) {
            throw new IllegalStateException("nothing verifies a budget of this database: it is not the parameter of a test."
                    + " Use meter(), and compare its used() with an assertion");
        }
        StatorUsage.Meter meter = meter();
        checks.add(() -> {
            String fault = check.fault(meter.used());
            if (!fault.isEmpty()) {
                throw new AssertionError(fault);
            }
        });
    }

    /** Tells the database that runChecks is called at the ends of tests. */
    StatorEndpoint checkedAtEnd() {
        checked = true;
        return this;
    }

    /** Verifies the budgets since the last call. All are tried; the first error has the others. */
    void runChecks() {
        List<Runnable> all;
        synchronized (checks) {
            all = new ArrayList<>(checks);
            checks.clear();
        }
        AssertionError first = null;
        for (Runnable check : all) {
            try {
                check.run();
            } catch (AssertionError e) {
                if (first == null) {
                    first = e;
                } else {
                    first.addSuppressed(e);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }

    /**
     * Returns a client of the AWS SDK for Java 2, which must be on the class path. It is closed with the database.
     *
     * @param type such as {@code DynamoDbClient}, {@code DynamoDbAsyncClient}, {@code DynamoDbStreamsClient} or
     *     {@code DynamoDbEnhancedClient}
     * @param <T> the type
     * @return the client, the same one for all calls
     */
    public <T> T client(Class<T> type) {
        synchronized (clients) {
            Object client = clients.get(type);
            if (client == null) {
                client = SdkClients.create(type, this);
                clients.put(type, client);
            }
            return type.cast(client);
        }
    }

    /**
     * Gives a builder of a client of the AWS SDK for Java 2 the endpoint, a region and credentials.
     *
     * <pre>{@code
     * DynamoDbClient client = database.configure(DynamoDbClient.builder().overrideConfiguration(…)).build();
     * }</pre>
     *
     * @param builder of a client
     * @param <B> its type
     * @return the builder
     */
    public <B> B configure(B builder) {
        return SdkClients.configure(builder, uri);
    }

    /**
     * Returns the environment by which AWS SDKs in other processes find the database.
     *
     * @return the variables
     */
    public Map<String, String> environment() {
        return Map.of("AWS_ENDPOINT_URL_DYNAMODB", uri.toString(), "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", uri.toString(),
                "AWS_REGION", REGION, "AWS_ACCESS_KEY_ID", ACCESS_KEY, "AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    }

    /**
     * Returns the properties by which clients of the AWS SDK for Java 2 find the database that the code under test builds
     * itself. The system's properties are those of all tests, so such tests cannot run in parallel.
     *
     * @return the properties, for {@link System#setProperty}
     */
    public Map<String, String> systemProperties() {
        return Map.of("aws.endpointUrlDynamoDb", uri.toString(), "aws.endpointUrlDynamoDbStreams", uri.toString(),
                "aws.region", REGION, "aws.accessKeyId", ACCESS_KEY, "aws.secretAccessKey", SECRET_KEY);
    }

    /** Closes the clients of {@link #client}, and drops the fork. A database that is no fork is kept. */
    @Override
    public void close() {
        RuntimeException failed = null;
        synchronized (clients) {
            List<Object> all = new ArrayList<>(clients.values());
            Collections.reverse(all); // an enhanced client before the one that it uses
            clients.clear();
            for (Object client : all) {
                if (client instanceof AutoCloseable) {
                    try {
                        ((AutoCloseable) client).close();
                    } catch (Exception e) {
                        failed = new IllegalStateException("close a " + client.getClass().getName() + ": " + e, e);
                    }
                }
            }
        }
        if (base != null) {
            try {
                HttpApi.send(URI.create(root()), "Stator.DeleteFork", Json.write(Map.of("ForkName", name)));
            } catch (StatorException e) {
                if (!e.code().equals("ResourceNotFoundException")) { // else it was dropped already, as it was not used
                    throw e;
                }
            }
        }
        if (failed != null) {
            throw failed;
        }
    }

    /** Returns the URI. */
    @Override
    public String toString() {
        return uri.toString();
    }
}
