import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes so many bytes to each partition of a topic: `KafkaFill BOOTSTRAP TOPIC FILE`, where line N of the file has the
 * bytes of partition N.
 */
class KafkaFill {
    private static final int RECORD_BYTES = 16 << 10;

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("acks", "all");
        properties.put("batch.size", 512 << 10);
        properties.put("linger.ms", 20);
        byte[] noise = new byte[4 << 20];
        new Random(17).nextBytes(noise);
        AtomicReference<Exception> failure = new AtomicReference<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            int partition = 0;
            for (String line : Files.readAllLines(Paths.get(args[2]))) {
                for (long left = Long.parseLong(line); left > 0;) {
                    int n = (int) Math.min(left, RECORD_BYTES);
                    int from = (int) (left * 31 % (noise.length - n));
                    byte[] value = java.util.Arrays.copyOfRange(noise, from, from + n);
                    producer.send(new ProducerRecord<>(args[1], partition, null, value), (sent, error) -> {
                        if (error != null) {
                            failure.set(error);
                        }
                    });
                    left -= n;
                }
                partition++;
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }
}
