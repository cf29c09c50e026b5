import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its beginning to its end: `KafkaRead BOOTSTRAP TOPIC WARM CONSUMERS FIRST COUNT` has consumers FIRST … of
 * CONSUMERS, which take turns with the partitions.
 *
 * Reads another topic first, by a consumer of its own, so that Java has loaded its classes. Then it says `ready`, waits for
 * a line, reads, and says how many bytes there were. Consumers connect after that line.
 */
class KafkaRead {
    public static void main(String[] args) throws Exception {
        int consumers = Integer.parseInt(args[3]);
        int first = Integer.parseInt(args[4]);
        int count = Integer.parseInt(args[5]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("enable.auto.commit", "false");
        // A consumer has one request open at each broker, and most of what a broker leads may be one partition. Larger answers
        // than by default leave the link idle less often, and need more patience with a slow broker.
        properties.put("max.partition.fetch.bytes", 4 << 20);
        properties.put("request.timeout.ms", 120_000);
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> warm = new KafkaConsumer<>(properties, plain, plain)) {
            read(warm, args[2], 0, 1);
        }
        List<KafkaConsumer<byte[], byte[]>> own = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            own.add(new KafkaConsumer<>(properties, plain, plain));
        }
        System.out.println("ready");
        System.in.read();
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            KafkaConsumer<byte[], byte[]> consumer = own.get(i);
            int number = first + i;
            parts.add(threads.submit(() -> read(consumer, args[1], number, consumers)));
        }
        long bytes = 0;
        for (Future<Long> part : parts) {
            bytes += part.get();
        }
        System.out.println(bytes);
        System.out.flush();
        // Without a farewell to brokers, which nobody has asked for.
        Runtime.getRuntime().halt(0);
    }

    private static long read(KafkaConsumer<byte[], byte[]> consumer, String topic, int number, int consumers) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (PartitionInfo partition : consumer.partitionsFor(topic)) {
            if (partition.partition() % consumers == number) {
                partitions.add(new TopicPartition(topic, partition.partition()));
            }
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        Set<TopicPartition> open = new HashSet<>(partitions);
        open.removeIf(partition -> ends.get(partition) == 0);
        consumer.assign(open);
        consumer.seekToBeginning(open);
        long bytes = 0;
        while (!open.isEmpty()) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                bytes += record.value().length;
            }
            for (TopicPartition partition : records.partitions()) {
                if (consumer.position(partition) >= ends.get(partition)) {
                    open.remove(partition);
                }
            }
        }
        return bytes;
    }
}
