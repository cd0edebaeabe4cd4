import { Alert, Badge, Container, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { ApiError, fetchMe, fetchWaiting, type Me } from './api.ts';
import { CallCard } from './call-card.tsx';
import { useLiveCalls } from './live.ts';

function Waiting({ me }: { me: Me }) {
  const live = useLiveCalls();
  const calls = useQuery({ queryKey: ['calls', 'pending'], queryFn: fetchWaiting, refetchInterval: 15_000 });
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h3">
          Waiting for you
        </Title>
        <Group gap="xs" role="status">
          <Badge color={live === 'live' ? 'green' : 'orange'} variant="outline">
            {live}
          </Badge>
          <Text size="sm">
            {me.name} ({me.role})
          </Text>
        </Group>
      </Group>
      {calls.isError && (
        <Alert color="red" role="alert" title="The list may be out of date">
          {calls.error.message}
        </Alert>
      )}
      {calls.data?.length === 0 && <Text>Nothing is waiting. New requests appear here by themselves.</Text>}
      {calls.data?.map((call) => (
        <CallCard key={call.callId} call={call} csrf={me.csrf} />
      ))}
    </Stack>
  );
}

/** The desk's page: the waiting calls of whoever is signed in, or how to sign in. */
export function Inbox() {
  const me = useQuery({ queryKey: ['me'], queryFn: fetchMe, retry: false });
  const signedOut = me.error instanceof ApiError && me.error.status === 401;
  return (
    <Container component="main" size="md" py="md">
      {signedOut && (
        <Alert title="Not signed in">
          Open the one-time login link that the start command printed, or make a new one.
        </Alert>
      )}
      {me.isError && !signedOut && (
        <Alert color="red" role="alert" title="The gateway does not answer">
          {me.error.message}
        </Alert>
      )}
      {me.isSuccess && <Waiting me={me.data} />}
    </Container>
  );
}
