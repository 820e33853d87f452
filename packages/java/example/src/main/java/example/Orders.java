package example;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;

/** Orders of customers. */
public final class Orders {
    private final DynamoDbClient client;

    public Orders(DynamoDbClient client) {
        this.client = client;
    }

    /** Stores an order; a reservation is deleted when it expires. */
    public void put(String customer, String order, Instant expires) {
        client.putItem(r -> r.tableName("Orders").item(Map.of(
                "customer", AttributeValue.fromS(customer),
                "order", AttributeValue.fromS(order),
                "expires", AttributeValue.fromN(Long.toString(expires.getEpochSecond())))));
    }

    /** Returns the orders of a customer. */
    public List<String> of(String customer) {
        return client.query(r -> r.tableName("Orders").keyConditionExpression("customer = :c")
                .expressionAttributeValues(Map.of(":c", AttributeValue.fromS(customer))))
                .items().stream().map(item -> item.get("order").s()).toList();
    }
}
