/**
 * A DynamoDB-compatible database for tests with JUnit 5: one server for all tests, and a copy-on-write database for each.
 *
 * <p>{@link io.github.statordb.junit5.StatorTest} and {@link io.github.statordb.junit5.StatorExtension} are for tests;
 * {@link io.github.statordb.junit5.StatorServer} starts a server without JUnit.
 */
package io.github.statordb.junit5;
