/*
 * Prints log records, batches and consumer protocol blobs as Kafka's own classes write them, with
 * what Kafka says is in them, as JSON. The output is records.json beside this file.
 *
 * With the jars of Kafka 4.1.1 in LIBS: java -cp "LIBS/*" GoldenRecords.java > records.json
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValueJsonConverter;
import org.apache.kafka.coordinator.group.generated.LegacyOffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValueJsonConverter;

public class GoldenRecords {
    static final ObjectMapper MAPPER = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
    static final long NOW = 1_760_000_000_000L;
    static final String LONG_TEXT = "m".repeat(700);
    static final String TEXT = "gr\u00fc\u00dfe \u6771\u4eac \ud83d\ude00";

    public static void main(String[] arguments) throws Exception {
        ObjectNode out = MAPPER.createObjectNode();
        keys(out.putArray("keys"));
        offsets(out.putArray("offset_commit_values"));
        groups(out.putArray("group_metadata_values"));
        batches(out.putArray("batches"));
        markers(out.putArray("markers"));
        subscriptions(out.putArray("subscriptions"));
        assignments(out.putArray("assignments"));
        System.out.println(MAPPER.writeValueAsString(out));
    }

    // --- keys: the record type takes the place of a version ---

    static void keys(ArrayNode out) {
        for (String text : new String[] {"group", "", TEXT, LONG_TEXT}) {
            add(out, 0, new LegacyOffsetCommitKey().setGroup(text).setTopic("t").setPartition(3))
                .put("group", text).put("topic", "t").put("partition", 3);
            add(out, 1, new OffsetCommitKey().setGroup(text).setTopic(text).setPartition(Integer.MAX_VALUE))
                .put("group", text).put("topic", text).put("partition", Integer.MAX_VALUE);
            add(out, 2, new GroupMetadataKey().setGroup(text)).put("group", text);
        }
        add(out, 3, new ConsumerGroupMetadataKey().setGroupId("group")).put("group", "group");
    }

    static ObjectNode add(ArrayNode out, int type, Message key) {
        return out.addObject().put("type", type).put("bytes", bytes(key, (short) 0, type));
    }

    // --- values ---

    static void offsets(ArrayNode out) {
        List<OffsetCommitValue> values = new ArrayList<>();
        values.add(offset(0, -1, "", NOW, -1));
        values.add(offset(Long.MAX_VALUE, Integer.MAX_VALUE, TEXT, Long.MAX_VALUE, NOW + 1));
        values.add(offset(42, 0, LONG_TEXT, 0, 0));
        values.add(offset(300, 7, "x".repeat(126), NOW, -1));
        values.add(offset(300, 7, "x".repeat(127), NOW, -1).setTopicId(new Uuid(1, -2)));
        OffsetCommitValue tagged = offset(5, 6, "later", NOW, -1).setTopicId(new Uuid(3, 4));
        tagged.unknownTaggedFields().add(new RawTaggedField(7, new byte[] {1, 2, 3}));
        tagged.unknownTaggedFields().add(new RawTaggedField(300, new byte[200]));
        for (short version = 0; version <= 4; version++) {
            for (OffsetCommitValue value : values) {
                value(out, version, value, OffsetCommitValueJsonConverter.write(value, version));
            }
        }
        ObjectNode last = value(out, (short) 4, tagged, OffsetCommitValueJsonConverter.write(tagged, (short) 4));
        tags(last, tagged);
    }

    static OffsetCommitValue offset(long offset, int epoch, String metadata, long at, long expires) {
        return new OffsetCommitValue().setOffset(offset).setLeaderEpoch(epoch).setMetadata(metadata)
            .setCommitTimestamp(at).setExpireTimestamp(expires);
    }

    static void groups(ArrayNode out) {
        List<GroupMetadataValue> values = new ArrayList<>();
        values.add(group("", 0, null, null, NOW));
        values.add(group("consumer", 1, "range", "m-1", NOW, member("m-1", null, "c", "/127.0.0.1", 2)));
        values.add(group(TEXT, Integer.MAX_VALUE, TEXT, TEXT, -1,
            member("", "", "", "", 0), member(TEXT, TEXT, LONG_TEXT, "/::1", 300)));
        for (short version = 0; version <= 4; version++) {
            for (GroupMetadataValue value : values) {
                value(out, version, value, GroupMetadataValueJsonConverter.write(value, version));
            }
        }
        GroupMetadataValue tagged = group("consumer", 2, "range", "m-1", NOW, member("m-1", "i", "c", "/h", 3));
        tagged.unknownTaggedFields().add(new RawTaggedField(0, new byte[0]));
        tagged.members().get(0).unknownTaggedFields().add(new RawTaggedField(9, new byte[] {9}));
        tags(value(out, (short) 4, tagged, GroupMetadataValueJsonConverter.write(tagged, (short) 4)), tagged);
        tags((ObjectNode) out.get(out.size() - 1).get("fields").get("members").get(0), tagged.members().get(0));
    }

    static GroupMetadataValue group(String type, int generation, String protocol, String leader, long at,
                                    GroupMetadataValue.MemberMetadata... members) {
        return new GroupMetadataValue().setProtocolType(type).setGeneration(generation).setProtocol(protocol)
            .setLeader(leader).setCurrentStateTimestamp(at).setMembers(List.of(members));
    }

    static GroupMetadataValue.MemberMetadata member(String id, String instance, String client, String host, int size) {
        return new GroupMetadataValue.MemberMetadata().setMemberId(id).setGroupInstanceId(instance)
            .setClientId(client).setClientHost(host).setRebalanceTimeout(60_000).setSessionTimeout(10_000)
            .setSubscription(new byte[size]).setAssignment(new byte[size / 2]);
    }

    static ObjectNode value(ArrayNode out, short version, Message value, JsonNode fields) {
        ObjectNode node = out.addObject().put("version", version).put("bytes", bytes(value, version, version));
        node.set("fields", fields);
        return node;
    }

    static void tags(ObjectNode node, Message message) {
        ObjectNode tags = node.putObject("unknown_tags");
        for (RawTaggedField field : message.unknownTaggedFields()) {
            tags.put(Integer.toString(field.tag()), field.data());
        }
    }

    // --- batches ---

    static void batches(ArrayNode out) {
        SimpleRecord plain = record(NOW, "k", "v");
        SimpleRecord[] several = {
            record(NOW, "key", "value"), record(NOW + 64, null, "no key"), record(NOW - 65, "tombstone", null),
            record(NOW + 1_000_000, "", ""), record(NOW, TEXT, "v".repeat(2_000)),
            new SimpleRecord(NOW, utf8("h"), utf8("v"), new Header[] {
                new RecordHeader("rb.reason", utf8("member_joined")), new RecordHeader("", new byte[0]),
                new RecordHeader("null", (byte[]) null)}),
        };
        batch(out, "one", MemoryRecords.withRecords(0L, Compression.NONE, 0, plain));
        batch(out, "several", MemoryRecords.withRecords(1_234_567_890_123L, Compression.NONE, 5, several));
        SimpleRecord[] many = new SimpleRecord[100];
        for (int i = 0; i < many.length; i++) {
            many[i] = record(NOW + i * 977L, "key-" + i, "x".repeat(i));
        }
        batch(out, "many", MemoryRecords.withRecords(7L, Compression.NONE, 0, many));
        for (CompressionType type : CompressionType.values()) {
            if (type != CompressionType.NONE) {
                batch(out, type.name, MemoryRecords.withRecords(9L, Compression.of(type).build(), 0, several));
                batch(out, type.name + " many", MemoryRecords.withRecords(9L, Compression.of(type).build(), 0, many));
            }
        }
        batch(out, "transactional", MemoryRecords.withTransactionalRecords(
            3L, Compression.NONE, 4000L, (short) 2, 0, 0, plain));
        batch(out, "idempotent", MemoryRecords.withIdempotentRecords(
            3L, Compression.NONE, 4000L, (short) 2, 17, 0, several));
        batch(out, "log append time", appendTime(several));
        batch(out, "compacted", compacted(many));
    }

    static MemoryRecords appendTime(SimpleRecord[] records) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16),
            RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.LOG_APPEND_TIME, 0L, NOW + 5);
        for (SimpleRecord record : records) {
            builder.append(record);
        }
        return builder.build();
    }

    /** Every third record is kept, as log compaction leaves a batch behind, and its first is gone. */
    static MemoryRecords compacted(SimpleRecord[] records) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 17),
            RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME, 100L);
        for (int i = 1; i < 30; i += 3) {
            builder.appendWithOffset(100L + i, records[i]);
        }
        builder.overrideLastOffset(140L);
        return builder.build();
    }

    static void batch(ArrayNode out, String name, MemoryRecords records) {
        RecordBatch batch = records.batches().iterator().next();
        ObjectNode node = out.addObject().put("name", name).put("bytes", base64(records.buffer()))
            .put("base_offset", batch.baseOffset()).put("last_offset", batch.lastOffset())
            .put("partition_leader_epoch", batch.partitionLeaderEpoch())
            .put("producer_id", batch.producerId()).put("producer_epoch", batch.producerEpoch())
            .put("base_sequence", batch.baseSequence()).put("max_timestamp", batch.maxTimestamp())
            .put("compression", batch.compressionType().id)
            .put("transactional", batch.isTransactional()).put("control", batch.isControlBatch());
        ArrayNode list = node.putArray("records");
        for (Record record : batch) {
            ObjectNode one = list.addObject().put("offset", record.offset()).put("timestamp", record.timestamp())
                .put("key", base64(record.key())).put("value", base64(record.value()));
            ArrayNode headers = one.putArray("headers");
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(header.value());
            }
        }
    }

    static void markers(ArrayNode out) {
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            batch(out, type.name(), MemoryRecords.withEndTransactionMarker(
                11L, NOW, 0, 4000L, (short) 2, new EndTransactionMarker(type, 3)));
        }
    }

    // --- the consumer protocol ---

    static void subscriptions(ArrayNode out) {
        ConsumerProtocolSubscription full = new ConsumerProtocolSubscription().setTopics(List.of("a", TEXT))
            .setUserData(ByteBuffer.wrap(new byte[] {1, 2})).setGenerationId(9).setRackId("rack");
        full.ownedPartitions().add(new ConsumerProtocolSubscription.TopicPartition()
            .setTopic("a").setPartitions(List.of(0, 5)));
        ConsumerProtocolSubscription bare = new ConsumerProtocolSubscription();
        for (short version = 0; version <= 3; version++) {
            for (ConsumerProtocolSubscription value : List.of(full, bare)) {
                value(out, version, value, ConsumerProtocolSubscriptionJsonConverter.write(value, version));
            }
        }
    }

    static void assignments(ArrayNode out) {
        ConsumerProtocolAssignment full = new ConsumerProtocolAssignment().setUserData(ByteBuffer.wrap(new byte[3]));
        full.assignedPartitions().add(new ConsumerProtocolAssignment.TopicPartition()
            .setTopic("a").setPartitions(List.of(0, 5)));
        full.assignedPartitions().add(new ConsumerProtocolAssignment.TopicPartition()
            .setTopic(TEXT).setPartitions(List.of()));
        ConsumerProtocolAssignment bare = new ConsumerProtocolAssignment();
        for (short version = 0; version <= 3; version++) {
            for (ConsumerProtocolAssignment value : List.of(full, bare)) {
                value(out, version, value, ConsumerProtocolAssignmentJsonConverter.write(value, version));
            }
        }
    }

    // --- bytes ---

    static String bytes(Message message, short version, int prefix) {
        ByteBuffer body = MessageUtil.toByteBufferAccessor(message, version).buffer();
        ByteBuffer whole = ByteBuffer.allocate(2 + body.remaining());
        whole.putShort((short) prefix).put(body).flip();
        return base64(whole);
    }

    static SimpleRecord record(long timestamp, String key, String value) {
        return new SimpleRecord(timestamp, utf8(key), utf8(value));
    }

    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String base64(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] raw = new byte[buffer.remaining()];
        buffer.duplicate().get(raw);
        return Base64.getEncoder().encodeToString(raw);
    }
}
