package io.github.statordb.junit5;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** What the tests begin with: a table with one order. */
public final class Orders implements StatorBase {
    static final Map<String, Object> TABLE = Map.of(
            "TableName", "Orders",
            "BillingMode", "PAY_PER_REQUEST",
            "AttributeDefinitions", List.of(Map.of("AttributeName", "id", "AttributeType", "S")),
            "KeySchema", List.of(Map.of("AttributeName", "id", "KeyType", "HASH")));

    @Override
    public void load(StatorEndpoint database) {
        database.send("CreateTable", TABLE);
        put(database, "base");
    }

    static void put(StatorEndpoint database, String id) {
        database.send("PutItem", Map.of("TableName", "Orders", "Item", Map.of("id", Map.of("S", id))));
    }

    static Set<String> ids(StatorEndpoint database) {
        Set<String> found = new TreeSet<>();
        for (Object item : Json.list(database.send("Scan", Map.of("TableName", "Orders")).get("Items"))) {
            found.add((String) Json.object(Json.object(item).get("id")).get("S"));
        }
        return found;
    }
}
