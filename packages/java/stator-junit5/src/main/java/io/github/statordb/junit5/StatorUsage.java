package io.github.statordb.junit5;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** What requests to a database did, from {@link StatorEndpoint#meter()} to {@link Meter#used()}. */
public final class StatorUsage {
    private final double read;
    private final double write;
    private final List<Requests> requests;

    private StatorUsage(double read, double write, List<Requests> requests) {
        this.read = read;
        this.write = write;
        this.requests = requests;
    }

    /**
     * Returns the consumed read units.
     *
     * @return the units
     */
    public double read() {
        return read;
    }

    /**
     * Returns the consumed write units.
     *
     * @return the units
     */
    public double write() {
        return write;
    }

    /**
     * Returns the consumed units, read and write together.
     *
     * @return the units
     */
    public double units() {
        return read + write;
    }

    /**
     * Returns the requests by kind.
     *
     * @return the kinds of requests, those with most units first
     */
    public List<Requests> requests() {
        return requests;
    }

    /** Returns the kinds of requests, one in a line. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (Requests r : requests) {
            text.append("\n    ").append(r);
        }
        return text.toString();
    }

    /** How often the requests of one kind succeeded, which differ in values only. */
    public static final class Requests {
        private final Map<String, Object> shape;
        private final long count;
        private final long returned;
        private final long scanned;
        private final double units;

        private Requests(Map<String, Object> shape, Counts now, Counts before) {
            this.shape = shape;
            count = now.requests - before.requests;
            returned = now.returned - before.returned;
            scanned = now.scanned - before.scanned;
            units = now.units - before.units;
        }

        /**
         * Returns the operation.
         *
         * @return such as {@code Query}
         */
        public String operation() {
            return Json.string(shape.get("operation"));
        }

        /**
         * Returns the table.
         *
         * @return its name
         */
        public String table() {
            return Json.string(shape.get("table"));
        }

        /**
         * Returns the index.
         *
         * @return its name, or an empty string
         */
        public String index() {
            return Json.string(shape.get("index"));
        }

        /**
         * Returns how many requests succeeded.
         *
         * @return the number
         */
        public long count() {
            return count;
        }

        /**
         * Returns how many items were read.
         *
         * @return the number
         */
        public long scanned() {
            return scanned;
        }

        /**
         * Returns how many items were returned.
         *
         * @return the number; a filter left out the others that were read
         */
        public long returned() {
            return returned;
        }

        /**
         * Returns about what the requests consumed: of many requests of a kind, some are measured.
         *
         * @return the units, read and write together
         */
        public double units() {
            return units;
        }

        /** Returns a description, with the key and the conditions. */
        @Override
        public String toString() {
            StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "about %6.1f units  %s of %s", units, operation(), table()));
            text.append(index().isEmpty() ? "" : "." + index());
            String key = (Json.string(shape.get("partition")) + " " + Json.string(shape.get("sort"))).strip();
            add(text, " ", Json.string(shape.getOrDefault("actions", shape.get("form"))));
            add(text, ", with the key ", key);
            add(text, ", with a filter ", Json.string(shape.get("filterText")));
            add(text, ", with a condition ", Json.string(shape.get("conditionText")));
            text.append(count == 1 ? " (once)" : " (" + count + " times)");
            if (scanned > returned) {
                text.append(": ").append(scanned).append(" items read, ").append(returned).append(" returned");
            }
            return text.toString();
        }

        private static void add(StringBuilder text, String words, String value) {
            text.append(value.isEmpty() ? "" : words + value);
        }
    }

    /** Measures requests from the moment at which it was made. */
    public static final class Meter {
        private final StatorEndpoint database;
        private final Reading before;

        Meter(StatorEndpoint database) {
            this.database = database;
            before = new Reading(database);
        }

        /**
         * Returns what requests did since the meter was made.
         *
         * @return the usage
         */
        public StatorUsage used() {
            Reading now = new Reading(database);
            double[] units = {0, 0};
            Set<String> known = new HashSet<>();
            now.consumed.forEach((series, value) -> {
                double was = before.consumed.getOrDefault(series, 0.0);
                units[series.contains("_write_") ? 1 : 0] += was <= value ? value - was : value; // else the table was made again
                known.add(tableOf(series));
            });
            List<Requests> requests = new ArrayList<>();
            now.shapes.forEach((shape, counts) -> {
                Counts was = before.shapes.getOrDefault(shape, Counts.NONE);
                if (counts.requests < was.requests) { // the database was rewound
                    was = Counts.NONE;
                }
                if (counts.requests == was.requests) {
                    return;
                }
                Requests r = new Requests(shape, counts, was);
                requests.add(r);
                if (!r.table().isEmpty() && !known.contains(r.table())) { // the table was deleted, and its metrics with it
                    units[r.operation().matches("PutItem|UpdateItem|DeleteItem|BatchWriteItem|TransactWriteItems") ? 1 : 0] += r.units();
                }
            });
            requests.sort((a, b) -> Double.compare(b.units, a.units));
            return new StatorUsage(units[0], units[1], Collections.unmodifiableList(requests));
        }

        private static String tableOf(String series) {
            int from = series.indexOf("table=\"") + 7;
            return from < 7 ? "" : series.substring(from, series.indexOf('"', from));
        }
    }

    /** What was counted until a moment. */
    private static final class Reading {
        final Map<String, Double> consumed = new HashMap<>();
        final Map<Map<String, Object>, Counts> shapes = new LinkedHashMap<>();

        Reading(StatorEndpoint database) {
            for (String line : HttpApi.get(database.uri(), "/metrics").split("\n")) {
                if (line.matches("dynamodb_consumed_(read|write)_capacity_units_total\\b.*")) {
                    int space = line.lastIndexOf(' ');
                    consumed.put(line.substring(0, space), Double.valueOf(line.substring(space + 1)));
                }
            }
            Map<String, Object> report = Json.parseObject(HttpApi.get(database.uri(), "/shapes"));
            for (Object shape : Json.list(report.get("shapes"))) {
                add(Json.object(shape));
            }
            add(Json.object(report.get("other")));
        }

        private void add(Map<String, Object> shape) {
            Map<String, Object> kind = new LinkedHashMap<>(shape);
            Counts counts = new Counts(Json.integer(kind.remove("requests")), Json.integer(kind.remove("returned")),
                    Json.integer(kind.remove("scanned")), Json.number(kind.remove("units")));
            kind.remove("measured");
            shapes.put(kind, counts);
        }
    }

    private static final class Counts {
        static final Counts NONE = new Counts(0, 0, 0, 0);

        final long requests;
        final long returned;
        final long scanned;
        final double units;

        Counts(long requests, long returned, long scanned, double units) {
            this.requests = requests;
            this.returned = returned;
            this.scanned = scanned;
            this.units = units;
        }
    }
}
