package programs;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;

/** What the jobs share: where the server is, checks, and waiting for a condition. */
final class Common {
    static final String HOST = System.getenv("NAGI_HOST");
    static final int PORT = Integer.parseInt(System.getenv("NAGI_PORT"));

    private static final long PATIENCE_MS = 120_000;

    private Common() {}

    /** Something that may fail. */
    interface Step {
        void run() throws Exception;
    }

    static void check(boolean isRight, String what) {
        if (!isRight) throw new AssertionError(what);
    }

    static void same(Object expected, Object found, String what) {
        check(Objects.equals(expected, found), what + ": expected " + expected + ", found " + found);
    }

    /** Looks until `condition` is true. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.call()) {
            check(System.currentTimeMillis() < end, "waited in vain for " + what);
            Thread.sleep(5);
        }
    }

    /** Sees that `step` fails with an error of which the message or a cause's has `words`. */
    static void fails(String words, Step step) {
        try {
            step.run();
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains(words)) return;
            }
            throw new AssertionError("an error with \"" + words + "\" was expected", error);
        }
        throw new AssertionError("an error with \"" + words + "\" was expected, there was none");
    }

    /** A thread of which the end is waited for, and of which an error is an error of the job. */
    static final class Worker {
        private final Thread thread;
        private volatile Throwable error;

        Worker(Step step) {
            thread = new Thread(() -> {
                try {
                    step.run();
                } catch (Throwable caught) {
                    error = caught;
                }
            });
            thread.start();
        }

        void join() throws Exception {
            thread.join(PATIENCE_MS);
            check(!thread.isAlive(), "a worker is stuck");
            if (error != null) throw new AssertionError("a worker failed", error);
        }

        static void joinAll(List<Worker> workers) throws Exception {
            for (Worker worker : workers) worker.join();
        }
    }

    /** The numbers from 0 to `count - 1`, as text. */
    static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    /** Runs a job: its last line is what it did, and any error ends it. */
    static void run(Callable<String> job) {
        try {
            System.out.println(job.call());
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
