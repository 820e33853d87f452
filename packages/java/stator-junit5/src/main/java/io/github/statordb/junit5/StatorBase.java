package io.github.statordb.junit5;

/**
 * Stores what tests begin with, such as tables. It is called once for all tests that name it, and each test has a fork of
 * the result. Tests with a server of their own call it again.
 */
@FunctionalInterface
public interface StatorBase {
    /**
     * Stores what tests begin with.
     *
     * @param database an empty database
     * @throws Exception if that fails, and then the tests fail, too
     */
    void load(StatorEndpoint database) throws Exception;
}
