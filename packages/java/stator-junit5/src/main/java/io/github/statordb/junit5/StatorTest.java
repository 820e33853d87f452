package io.github.statordb.junit5;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives the tests of a class, or one test, a DynamoDB-compatible database.
 *
 * <pre>{@code
 * @StatorTest(base = Tables.class)
 * class OrdersTest {
 *     @Test
 *     void order(DynamoDbClient client) { … }
 * }
 * }</pre>
 *
 * <p>A parameter of type {@link StatorEndpoint}, {@link java.net.URI} (of the endpoint), {@link StatorClock},
 * {@link StatorFaults}, or of a client of the AWS SDK for Java 2 is the database of the test. In methods with
 * {@code @BeforeAll} it is the database with which each test of the class begins.
 *
 * <p>Without {@link #clock}, {@link #clockAt}, {@link #faults} and {@link #allowFaults} there is one server for all tests, and a
 * test has a fork of its database: it takes milliseconds, and tests can run in parallel. With them, each test has a server of its
 * own, since clock and faults are those of a server. An annotation of a method replaces that of its class.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@ExtendWith(StatorExtension.class)
public @interface StatorTest {
    /**
     * Stores what the tests begin with: a class with a constructor without parameters.
     *
     * @return the class; by default the tests begin with nothing
     */
    Class<? extends StatorBase> base() default StatorBase.class;

    /**
     * Which tests share a database.
     *
     * @return the scope
     */
    StatorScope scope() default StatorScope.TEST;

    /**
     * Whether the test can change the clock, which begins at the present time and runs.
     *
     * @return true for a server with such a clock
     */
    boolean clock() default false;

    /**
     * The time at which the clock begins.
     *
     * @return a time such as {@code 2026-01-01T00:00:00Z}; if it is given, the test can change the clock
     */
    String clockAt() default "";

    /**
     * The faults that are injected once the base is loaded. If the test fails, the error has their timeline and seed.
     *
     * @return a resource of the class path, or else a file, in the form of docs/faults.md
     */
    String faults() default "";

    /**
     * Whether the test sets faults with {@link StatorFaults}.
     *
     * @return true for a server that allows it
     */
    boolean allowFaults() default false;

    /**
     * Further arguments of {@code stator serve}. Tests with equal arguments share a server.
     *
     * @return the arguments, such as {@code "--throttle"}
     */
    String[] args() default {};
}
