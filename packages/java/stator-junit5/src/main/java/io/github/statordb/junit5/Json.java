package io.github.statordb.junit5;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON. Objects are maps, arrays lists, and numbers {@link BigDecimal}.
 */
final class Json {
    private static final int MAX_DEPTH = 200;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.unexpected();
        }
        return value;
    }

    static Map<String, Object> parseObject(String text) {
        Object value = parse(text);
        if (!(value instanceof Map)) {
            throw new IllegalArgumentException("JSON is not an object: " + shortened(text));
        }
        return object(value);
    }

    @SuppressWarnings("unchecked") // the parser makes no other maps
    static Map<String, Object> object(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    static List<?> list(Object value) {
        return value == null ? List.of() : (List<?>) value;
    }

    static String string(Object value) {
        return value == null ? "" : value.toString();
    }

    static double number(Object value) {
        return value == null ? 0 : ((Number) value).doubleValue();
    }

    static long integer(Object value) {
        return value == null ? 0 : ((Number) value).longValue();
    }

    private Object value() {
        space();
        switch (at < text.length() ? text.charAt(at) : 0) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        enter();
        if (!next('}')) {
            do {
                space();
                String name = string();
                expect(':');
                members.put(name, value());
            } while (next(','));
            expect('}');
        }
        depth--;
        return members;
    }

    private List<Object> array() {
        List<Object> elements = new ArrayList<>();
        enter();
        if (!next(']')) {
            do {
                elements.add(value());
            } while (next(','));
            expect(']');
        }
        depth--;
        return elements;
    }

    private void enter() {
        at++;
        if (++depth > MAX_DEPTH) {
            throw new IllegalArgumentException("JSON is nested deeper than " + MAX_DEPTH);
        }
    }

    private String string() {
        if (at >= text.length() || text.charAt(at) != '"') {
            throw unexpected();
        }
        StringBuilder out = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"') {
                at++;
                return out.toString();
            }
            out.append(c == '\\' ? escaped() : c);
        }
        throw unexpected();
    }

    private char escaped() {
        at++;
        char c = at < text.length() ? text.charAt(at) : 0;
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                if (at + 4 < text.length()) {
                    at += 4;
                    return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
                }
                throw unexpected();
            default:
                throw unexpected();
        }
    }

    private BigDecimal number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        if (at == start) {
            throw unexpected();
        }
        return new BigDecimal(text.substring(start, at));
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw unexpected();
        }
        at += word.length();
        return value;
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean next(char c) {
        space();
        if (at >= text.length() || text.charAt(at) != c) {
            return false;
        }
        at++;
        return true;
    }

    private void expect(char c) {
        if (!next(c)) {
            throw unexpected();
        }
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("JSON has an error at character " + at + ": " + shortened(text));
    }

    private static String shortened(String text) {
        return text.length() > 200 ? text.substring(0, 200) + "…" : text;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> member : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                quote(out, String.valueOf(member.getKey()));
                out.append(':');
                write(out, member.getValue());
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Iterable) {
            String separator = "[";
            for (Object element : (Iterable<?>) value) {
                out.append(separator);
                write(out, element);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof CharSequence || value instanceof Character || value instanceof Enum) {
            quote(out, value.toString());
        } else {
            throw new IllegalArgumentException("JSON has no form for a " + value.getClass().getName()
                    + "; give a Map, a List, a String, a Number or a Boolean");
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
