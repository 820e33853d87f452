package io.github.statordb.junit5;

/** An error of the API. Its code is such as {@code ResourceNotFoundException}. */
public final class StatorException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The code of the error. */
    private final String code;

    /** The status of the reply. */
    private final int status;

    StatorException(String operation, String code, int status, String message) {
        super(operation + ": " + code + ": " + message);
        this.code = code;
        this.status = status;
    }

    /**
     * Returns the code of the error.
     *
     * @return the code, such as {@code ResourceNotFoundException}
     */
    public String code() {
        return code;
    }

    /**
     * Returns the status of the reply.
     *
     * @return the status of HTTP, such as 400
     */
    public int status() {
        return status;
    }
}
