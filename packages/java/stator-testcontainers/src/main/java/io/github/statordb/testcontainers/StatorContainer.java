package io.github.statordb.testcontainers;

import java.net.URI;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A container with a DynamoDB-compatible database in memory.
 *
 * <pre>{@code
 * try (StatorContainer stator = new StatorContainer("ghcr.io/stator-db/stator:1.2.3")) {
 *     stator.start();
 *     DynamoDbClient client = DynamoDbClient.builder()
 *             .endpointOverride(stator.getEndpoint())
 *             .region(Region.of(stator.getRegion()))
 *             .credentialsProvider(StaticCredentialsProvider.create(
 *                     AwsBasicCredentials.create(stator.getAccessKey(), stator.getSecretKey())))
 *             .build();
 * }
 * }</pre>
 *
 * <p>With stator-junit5 on the class path, {@code StatorEndpoint.of(stator.getEndpoint())} makes forks of it, and has its clock
 * and faults.
 */
public class StatorContainer extends GenericContainer<StatorContainer> {
    private static final DockerImageName IMAGE = DockerImageName.parse("ghcr.io/stator-db/stator");
    private static final int PORT = 8000;

    private final List<String> args = new ArrayList<>();

    /**
     * Makes a container.
     *
     * @param image the name of the image with its tag, such as {@code ghcr.io/stator-db/stator:1.2.3}
     */
    public StatorContainer(String image) {
        this(DockerImageName.parse(image));
    }

    /**
     * Makes a container.
     *
     * @param image the image; one with another name needs {@code asCompatibleSubstituteFor("ghcr.io/stator-db/stator")}
     */
    public StatorContainer(DockerImageName image) {
        super(image);
        image.assertCompatibleWith(IMAGE);
        withExposedPorts(PORT);
        waitingFor(Wait.forHttp("/readyz").forPort(PORT).forStatusCode(200));
    }

    /**
     * Adds arguments of {@code stator serve}.
     *
     * @param more such as {@code --throttle}
     * @return this
     */
    public StatorContainer withArgs(String... more) {
        args.addAll(List.of(more));
        return this;
    }

    /**
     * Lets clients change the clock, which begins at the present time.
     *
     * @return this
     */
    public StatorContainer withClock() {
        return withArgs("--test-clock");
    }

    /**
     * Lets clients change the clock.
     *
     * @param begin the time at which the clock begins
     * @return this
     */
    public StatorContainer withClock(Instant begin) {
        return withArgs("--test-clock=" + begin);
    }

    /**
     * Lets clients inject faults into requests.
     *
     * @return this
     */
    public StatorContainer withFaults() {
        return withArgs("--allow-faults");
    }

    @Override
    protected void configure() {
        List<String> command = new ArrayList<>(List.of("serve", "--in-memory", "--addr", "0.0.0.0:" + PORT, "--allow-anyone",
                "--allow-host", getHost()));
        command.addAll(args);
        withCommand(command.toArray(new String[0]));
    }

    /**
     * Returns the URI of the database, for the {@code endpointOverride} of an SDK.
     *
     * @return the URI
     */
    public URI getEndpoint() {
        return URI.create("http://" + getHost() + ":" + getMappedPort(PORT));
    }

    /**
     * Returns a region for an SDK.
     *
     * @return the region; the database accepts all
     */
    public String getRegion() {
        return "us-east-1";
    }

    /**
     * Returns an access key for an SDK.
     *
     * @return the key; the database accepts all
     */
    public String getAccessKey() {
        return "stator";
    }

    /**
     * Returns a secret key for an SDK.
     *
     * @return the key; the database accepts all
     */
    public String getSecretKey() {
        return "stator";
    }
}
