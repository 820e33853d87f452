/** A container with a DynamoDB-compatible database, for Testcontainers. */
package io.github.statordb.testcontainers;
