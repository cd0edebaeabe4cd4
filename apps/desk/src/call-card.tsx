import { Alert, Badge, Button, Card, Group, Loader, Stack, Text, Textarea, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, ApiError, type Call, type CallDetail, decide, fetchCall } from './api.ts';
import { readableArguments } from './call-arguments.ts';
import { VisibleText } from './visible-text-view.tsx';

function CallFacts({ call }: { call: CallDetail }) {
  const shown = readableArguments(call);
  return (
    <Stack gap="sm">
      <VisibleText text={shown.main} label={shown.label} />
      {call.view.realPath !== undefined && call.view.realPath !== shown.main && (
        <Text size="sm">Real path: {call.view.realPath}</Text>
      )}
      {call.view.diff !== undefined && call.view.diff !== '' ? (
        <VisibleText text={call.view.diff} label="Change to the file" />
      ) : (
        shown.rest.map(([name, value]) => (
          <div key={name}>
            <Text size="sm">{name}</Text>
            <VisibleText text={value} label={name} />
          </div>
        ))
      )}
      {call.view.profile !== undefined && <Text size="sm">Sandbox profile: {call.view.profile}</Text>}
      {call.view.reasons?.map((reason) => (
        <Text size="sm" key={reason}>
          Asked because: {reason}
        </Text>
      ))}
    </Stack>
  );
}

function AnswerForm({ call, csrf }: { call: CallDetail; csrf: string | undefined }) {
  const client = useQueryClient();
  const [reason, setReason] = useState('');
  const answer = useMutation({
    mutationFn: (chosen: Answer) => decide(call, chosen, reason, csrf),
    onSuccess: () => client.invalidateQueries({ queryKey: ['calls'] }),
    onError: (error) => {
      if (error instanceof ApiError && error.status === 409) void client.invalidateQueries({ queryKey: ['calls'] });
    },
  });
  const busy = answer.isPending || answer.isSuccess;
  return (
    <Stack gap="sm">
      <Textarea
        label="Reason"
        description="A denial needs one; it reaches the agent."
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={2000}
        autosize
      />
      {answer.isError && (
        <Alert color="red" role="alert" title="Not recorded">
          {answer.error.message}
        </Alert>
      )}
      <Group>
        <Button disabled={busy} loading={answer.isPending} onClick={() => answer.mutate('approve')}>
          Approve once
        </Button>
        <Button
          variant="outline"
          color="red"
          disabled={busy || reason.trim() === ''}
          onClick={() => answer.mutate('deny')}
        >
          Deny with reason
        </Button>
      </Group>
    </Stack>
  );
}

/** One waiting call: what would run, where, why it asks, and the two answers. */
export function CallCard({ call, csrf }: { call: Call; csrf: string | undefined }) {
  const detail = useQuery({ queryKey: ['calls', 'detail', call.callId], queryFn: () => fetchCall(call.callId) });
  return (
    <Card withBorder component="article" aria-label={`${call.tool} by ${call.agent}`}>
      <Stack>
        <Group justify="space-between">
          <Title order={2} size="h4">
            {call.tool} <Badge variant="light">{call.action}</Badge>
          </Title>
          <Text size="sm">waiting since {new Date(call.receivedMs).toLocaleTimeString()}</Text>
        </Group>
        <Text size="sm">
          agent {call.agent} · host {call.host} · session {call.sessionId}
          {call.scope === undefined || call.scope === '' ? '' : ` · scope ${call.scope}`}
        </Text>
        {detail.isPending && <Loader aria-label="loading the exact text" />}
        {detail.isError && (
          <Alert color="red" role="alert" title="The exact text could not be read">
            {detail.error.message}
          </Alert>
        )}
        {detail.isSuccess && (
          <>
            <CallFacts call={detail.data} />
            <AnswerForm key={detail.data.viewDigest} call={detail.data} csrf={csrf} />
          </>
        )}
      </Stack>
    </Card>
  );
}
