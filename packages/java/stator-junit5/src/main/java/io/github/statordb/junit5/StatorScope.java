package io.github.statordb.junit5;

/** Which tests share a database. */
public enum StatorScope {
    /** Each test has a database of its own. */
    TEST,
    /** The tests of a class, and of its nested classes, have one database. */
    CLASS
}
