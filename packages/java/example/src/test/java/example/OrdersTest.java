package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.statordb.junit5.Fault;
import io.github.statordb.junit5.StatorBase;
import io.github.statordb.junit5.StatorClock;
import io.github.statordb.junit5.StatorEndpoint;
import io.github.statordb.junit5.StatorFaults;
import io.github.statordb.junit5.StatorTest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.awscore.retry.AwsRetryStrategy;
import software.amazon.awssdk.enhanced.dynamodb.AttributeConverterProvider;
import software.amazon.awssdk.enhanced.dynamodb.AttributeValueType;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbEnhancedAsyncClient;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbEnhancedClient;
import software.amazon.awssdk.enhanced.dynamodb.Key;
import software.amazon.awssdk.enhanced.dynamodb.TableMetadata;
import software.amazon.awssdk.enhanced.dynamodb.TableSchema;
import software.amazon.awssdk.enhanced.dynamodb.document.EnhancedDocument;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;
import software.amazon.awssdk.services.dynamodb.model.ThrottlingException;
import software.amazon.awssdk.services.dynamodb.streams.DynamoDbStreamsAsyncClient;
import software.amazon.awssdk.services.dynamodb.streams.DynamoDbStreamsClient;

@StatorTest(base = OrdersTest.Tables.class)
class OrdersTest {
    private static final Instant NEVER = Instant.parse("2999-01-01T00:00:00Z");

    /** What each test begins with. */
    static final class Tables implements StatorBase {
        @Override
        public void load(StatorEndpoint database) {
            DynamoDbClient client = database.client(DynamoDbClient.class);
            client.createTable(r -> r.tableName("Orders").billingMode(BillingMode.PAY_PER_REQUEST)
                    .attributeDefinitions(a -> a.attributeName("customer").attributeType(ScalarAttributeType.S),
                            a -> a.attributeName("order").attributeType(ScalarAttributeType.S))
                    .keySchema(k -> k.attributeName("customer").keyType(KeyType.HASH), k -> k.attributeName("order").keyType(KeyType.RANGE)));
            client.updateTimeToLive(r -> r.tableName("Orders").timeToLiveSpecification(s -> s.enabled(true).attributeName("expires")));
            new Orders(client).put("ada", "first", NEVER);
        }
    }

    @Test
    void ordersAreStored(DynamoDbClient client) {
        Orders orders = new Orders(client);
        orders.put("ada", "second", NEVER);
        assertEquals(List.of("first", "second"), orders.of("ada"));
    }

    @Test
    void testsDoNotSeeEachOther(DynamoDbClient client) {
        assertEquals(List.of("first"), new Orders(client).of("ada"));
    }

    @Test
    void aPageIsOneQuery(DynamoDbClient client, StatorEndpoint database) {
        database.budget(0.5);
        database.noScans();
        new Orders(client).of("ada");
    }

    @Test
    @StatorTest(base = Tables.class, clock = true)
    void reservationsExpire(DynamoDbClient client, StatorClock clock) {
        Orders orders = new Orders(client);
        orders.put("ada", "reserved", clock.now().plus(Duration.ofHours(24)));
        clock.advance(Duration.ofHours(25));
        assertEquals(List.of("first"), orders.of("ada"));
    }

    @Test
    @StatorTest(base = Tables.class, allowFaults = true)
    void throttlesAreRetried(DynamoDbClient client, StatorEndpoint database, StatorFaults faults) {
        faults.set(Fault.throttle().operations("PutItem").count(1));
        new Orders(client).put("ada", "second", NEVER); // the SDK sends it again
        assertEquals(1, faults.timeline().size());
        try (DynamoDbClient once = database.configure(DynamoDbClient.builder())
                .overrideConfiguration(c -> c.retryStrategy(AwsRetryStrategy.doNotRetry())).build()) {
            faults.set(Fault.throttle().operations("PutItem").count(1));
            assertThrows(ThrottlingException.class, () -> new Orders(once).put("ada", "third", NEVER));
        }
    }

    @Test
    void otherClients(DynamoDbAsyncClient async, DynamoDbStreamsClient streams, DynamoDbStreamsAsyncClient asyncStreams) {
        assertEquals(List.of("Orders"), async.listTables().join().tableNames());
        assertEquals(List.of(), streams.listStreams().streams());
        assertEquals(List.of(), asyncStreams.listStreams().join().streams());
    }

    @Test
    void enhancedClients(DynamoDbEnhancedClient client, DynamoDbEnhancedAsyncClient async) {
        TableSchema<EnhancedDocument> schema = TableSchema.documentSchemaBuilder()
                .addIndexPartitionKey(TableMetadata.primaryIndexName(), "customer", AttributeValueType.S)
                .addIndexSortKey(TableMetadata.primaryIndexName(), "order", AttributeValueType.S)
                .attributeConverterProviders(AttributeConverterProvider.defaultProvider()).build();
        Key key = Key.builder().partitionValue("ada").sortValue("first").build();
        assertEquals("first", client.table("Orders", schema).getItem(key).getString("order"));
        assertEquals("first", async.table("Orders", schema).getItem(key).join().getString("order"));
    }
}
