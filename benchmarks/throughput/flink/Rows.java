import java.io.File;
import java.nio.file.Files;

import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * What PyFlink's jobs leave to Java, for Python is what is measured there: rows from their numbers, and the checksum.
 *
 * <p>Each function leaves what it knows in a file of its own in the job's directory when it is closed.
 */
public final class Rows {
    abstract static class Told extends ScalarFunction {
        private File directory;

        @Override
        public void open(FunctionContext context) {
            directory = new File(context.getJobParameter("directory", "."));
        }

        abstract String told();

        @Override
        public void close() throws Exception {
            Files.writeString(File.createTempFile(getClass().getSimpleName(), ".txt", directory).toPath(), told());
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }
    }

    /** splitmix64 without its lowest bit; tells when the first and the last row were made, in ns. */
    public static final class Scatter extends Told {
        private long begin = Long.MAX_VALUE, end = Long.MIN_VALUE;

        public Long eval(Long number) {
            if ((number & 1022) == 0) {
                end = System.nanoTime();
                begin = Math.min(begin, end);
            }
            long mixed = number + 0x9E3779B97F4A7C15L;
            mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
            mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
            return (mixed ^ (mixed >>> 31)) >>> 1;
        }

        @Override
        String told() {
            return begin + " " + end;
        }
    }

    /** One number for each row; tells their sum, and when the last row came, in ns. */
    public static final class Fold extends Told {
        private long sum, end = Long.MIN_VALUE;

        public Long eval(Long key, Long value) {
            end = System.nanoTime();
            long folded = (key * 0x9E3779B97F4A7C15L + value) * 0x9E3779B97F4A7C15L;
            sum += folded ^ (folded >>> 32);
            return 0L;
        }

        @Override
        String told() {
            return sum + " " + end;
        }
    }
}
